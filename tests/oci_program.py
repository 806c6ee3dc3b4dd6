"""The registry program of Debian on loopback, for tests: `with running_registry(folder) as host`."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

_START_S = 60


@contextlib.contextmanager
def running_registry(folder: Path, *, password_file: Path | None = None) -> Iterator[str]:
    """A registry that keeps its data in `folder`; gives its host and port. It ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host},
    }
    if password_file is not None:
        settings["auth"] = {"htpasswd": {"realm": "skills", "path": str(password_file)}}
    (folder / "registry.yml").write_text(json.dumps(settings))  # JSON is YAML
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(folder / "registry.yml")], stdout=log, stderr=log)
        try:
            _wait(host, process, folder / "registry.log")
            yield host
        finally:
            process.kill()
            process.wait()


def _wait(host: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers; a login is an answer too."""
    ends = time.monotonic() + _START_S
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(OSError):
            try:
                urllib.request.urlopen(f"http://{host}/v2/", timeout=5).close()
            except urllib.error.HTTPError as error:
                if error.code != 401:
                    raise
            return
        time.sleep(0.02)
    raise AssertionError(f"the registry does not answer: {log.read_text()[-2000:]}")
