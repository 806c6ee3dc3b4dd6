"""A package index and an npm registry on this machine, with packages that are made here."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Registry:
    """A server of packages: `settings` lead to it, `asked` are the paths that were requested."""

    url: str
    pages: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    server: ThreadingHTTPServer | None = None

    @property
    def settings(self) -> dict[str, object]:
        return {"package-index": f"{self.url}/simple", "npm-registry": self.url}

    def close(self) -> None:
        """Be gone: what is needed from now on is not to be had."""
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def add_wheel(self, name: str, version: str, source: str = "", *, requires: tuple[str, ...] = (), digest: str = "") -> None:
        """A package with one module."""
        made = io.BytesIO()
        needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(f"{name}.py", source)
            archive.writestr(
                f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
            )
            archive.writestr(
                f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
        self._add_file(name, f"{name}-{version}-py3-none-any.whl", made.getvalue(), digest)

    def add_source(self, name: str, files: Mapping[str, str]) -> None:
        """A package of version 1.0 that has to be built."""
        self._add_file(name, f"{name}-1.0.tar.gz", _tar({f"{name}-1.0/{path}": text for path, text in files.items()}), "")

    def _add_file(self, name: str, file: str, data: bytes, digest: str) -> None:
        self.pages[f"/files/{file}"] = data
        link = f'<a href="{self.url}/files/{file}#sha256={digest or hashlib.sha256(data).hexdigest()}">{file}</a>\n'
        self.pages[f"/simple/{name}/"] = self.pages.get(f"/simple/{name}/", b"") + link.encode()

    def add_npm(self, name: str, files: Mapping[str, str], *, integrity: str = "", **fields: object) -> None:
        """An npm package of version 1.0.0."""
        manifest = {"name": name, "version": "1.0.0", **fields}
        data = _tar({"package/package.json": json.dumps(manifest), **{f"package/{path}": text for path, text in files.items()}})
        self.pages[f"/{name}/-/{name}-1.0.0.tgz"] = data
        found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": f"{self.url}/{name}/-/{name}-1.0.0.tgz", "integrity": integrity or found}
        listed = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**manifest, "dist": dist}}}
        self.pages[f"/{name}"] = json.dumps(listed).encode()


def _tar(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text.encode()), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


@pytest.fixture
def registry() -> Iterator[Registry]:
    """An empty index that is also an npm registry."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            found = made.pages.get(self.path)
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "text/html" if self.path.startswith("/simple/") else "application/json")
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        do_HEAD = do_GET  # noqa: N815 - the name that the library calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    made = Registry(f"http://127.0.0.1:{server.server_address[1]}", {}, server=server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield made
    made.close()
    thread.join()
