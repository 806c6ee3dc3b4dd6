"""Started inside the sandbox before a skill that may reach hosts: opens the listener of its proxy, hands it over, and ends.

`proxy_opener.py CONNECTION PORT PROGRAM ARGUMENT...`. The listener is made in the run's own network namespace; its descriptor
goes through the connection to the supervisor, which serves it. Then this program becomes the skill's interpreter: neither the
listener nor the connection exists in it any more. The file stands alone and imports next to nothing, because it is on the way
of every such run.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # without the conveniences around it, which take longer than all else

_WAITING = 64


def _hand_out(connection: int, port: int) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(_WAITING)
    pair = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, connection)
    descriptor = listener.fileno().to_bytes(4, sys.byteorder)
    pair.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor)])
    pair.close()
    listener.close()


def main() -> None:
    """Hand out the listener, then become the skill's interpreter, which waits at the gate."""
    try:
        _hand_out(int(sys.argv[1]), int(sys.argv[2]))
        os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 # no shell, a trusted program
    except OSError as error:
        os.write(2, f"skillyard: the sandbox could not be set up: {error}\n".encode())
        os._exit(126)


main()
