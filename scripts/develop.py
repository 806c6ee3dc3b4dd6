"""The page while it is written (`make web`): Vite reloads it at each change, over the API of a server on a folder of skills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "web"))

# isort: off
import build  # noqa: E402 # web/build.py, which knows where node is
import run  # noqa: E402 # scripts/run.py, which starts a server
# isort: on


def main(skills: str) -> int:
    """Both servers until Ctrl-C."""
    node = build.path_node() or build.wheel_node()
    if node is None:
        print(f"error: there is no node for the page\nhint: pip install '{build.WHEEL}'", file=sys.stderr)  # noqa: T201
        return 1
    build.install(ROOT / "web", node)
    with run.start(skills, 0, "--json") as server:
        assert server.stdout is not None  # noqa: S101 # it was asked for
        try:
            address = json.loads(server.stdout.readline())["address"]
            paths = f"{node.folder}{os.pathsep}{os.environ['PATH']}"
            vite = [*node.npm, "run", "dev"]
            environment = os.environ | {"SKILLYARD_SERVER": address, "PATH": paths}
            return subprocess.call(vite, cwd=ROOT / "web", env=environment)  # noqa: S603
        except KeyboardInterrupt:
            return 0
        finally:
            server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
