"""Serves a folder of skills with its page until Ctrl-C, or for `--seconds` (`make run`); a desktop gets the page opened.

It has a home of its own, `.skillyard/` beside the Makefile: the skills of the person who tries it are not in the list, what is
installed, run and remembered there leaves nothing behind, and `make clean` removes it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USUAL_PORT = 8787
LOG = "server.log"  # in the home: what the server writes of each request
IN_CI_S = 10  # a pipeline waits for the end of a step


def main() -> int:
    """Serve; the exit code is the server's, and 0 after Ctrl-C or when the time is over."""
    arguments = _arguments()
    port = arguments.port if arguments.port is not None else (USUAL_PORT if _is_free(USUAL_PORT) else 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with start(arguments.skills, port) as server:
        over = threading.Timer(arguments.seconds or 0, server.send_signal, [signal.SIGINT])
        try:
            _pass_on(server, over if arguments.seconds else None)
        except KeyboardInterrupt:
            server.send_signal(signal.SIGINT)
        finally:
            over.cancel()
    if server.returncode in (0, -signal.SIGINT, 128 + signal.SIGINT):
        return 0
    print((ROOT / ".skillyard" / LOG).read_text("utf-8")[-2000:], file=sys.stderr)  # noqa: T201
    return server.returncode


def start(skills: str, port: int, *options: str, home: Path = ROOT / ".skillyard") -> subprocess.Popen[str]:
    """A server over the skills of a folder, and over what is installed; its first line says where."""
    project = home / "project"
    project.mkdir(parents=True, exist_ok=True)
    paths = json.dumps([str(Path(skills).resolve())])
    project.joinpath("skillyard.toml").write_text(f"[skills]\npaths = {paths}\nallow-external-paths = true\n", "utf-8")
    command = [sys.executable, "-m", "skillyard", "serve", "--project", str(project), "--port", str(port), *options]
    with (home / LOG).open("w") as log:
        return subprocess.Popen(command, env=private_environment(home), stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603


def private_environment(home: Path) -> dict[str, str]:
    """The variables of a process that keeps everything in that folder."""
    private = {"HOME": home, "SKILLYARD_HOME": home / "data", "XDG_CONFIG_HOME": home / "config", "CLAUDE_SKILLS_DIR": ""}
    return os.environ | {name: str(value) for name, value in private.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("skills", help="a folder of skills")
    parser.add_argument("--port", type=int, help=f"{USUAL_PORT}, or any free one where that is taken")
    parser.add_argument("--seconds", type=float, default=IN_CI_S if os.environ.get("CI") else None)
    return parser.parse_args([word for word in sys.argv[1:] if not word.endswith("=")])  # what make was not told


def _pass_on(server: subprocess.Popen[str], over: threading.Timer | None) -> None:
    """Print what the server prints; with its first address the page is opened and the time begins."""
    assert server.stdout is not None  # noqa: S101 # it was asked for
    reported = False
    for line in server.stdout:
        print(line, end="", flush=True)  # noqa: T201
        address = re.search(r"http://[^\s;]+", line)
        if address and not reported:
            reported = True
            if over:
                over.start()
            if _has_desktop():
                webbrowser.open(address[0])


def _has_desktop() -> bool:
    return sys.stdout.isatty() and any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return tried.connect_ex(("127.0.0.1", port)) != 0


if __name__ == "__main__":
    sys.exit(main())
