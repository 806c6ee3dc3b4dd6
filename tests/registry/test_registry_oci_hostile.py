"""Registries that lie: other bytes than the digest says, too much of everything, lists without an end, hosts of others."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from archives import SKILL, member, tar_of

from skillyard.errors import (
    ArchiveRefused,
    ArchiveTooLarge,
    DigestMismatch,
    InvalidSource,
    NetworkRefused,
    SkillyardError,
    TooManyFiles,
)
from skillyard.packages import PackageLimits, Source, digest_of
from skillyard.registry.oci_artifacts import OciFetcher
from skillyard.registry.oci_registry import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    FindCredentials,
    OciRepository,
    RegistryCredentials,
    no_credentials,
)

ENDLESS: Final = -1
LAYER = tar_of((member("SKILL.md"), SKILL))
ME = RegistryCredentials("me", "pass-word")


class _Registry:
    """Answers what it is told: a path to a status, headers and a body (or `ENDLESS`); remembers what it was asked."""

    def __init__(self) -> None:
        reported = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reported.asked.append((self.path.partition("?")[0], self.headers.get("Authorization")))
                status, headers, body = reported.answers.get(self.path.partition("?")[0], (404, {}, b""))
                if (
                    reported.token
                    and self.path.startswith("/v2/")
                    and self.headers.get("Authorization") != f"Bearer {reported.token}"
                ):
                    status, headers, body = 401, {"WWW-Authenticate": f'Bearer realm="{reported.realm}",service="s"'}, b""
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    while body == ENDLESS:
                        self.wfile.write(b"x" * 65536)
                    self.wfile.write(body)
                except OSError:
                    reported.hung_up = True

            def log_message(self, *_: object) -> None:
                return

        self.asked: list[tuple[str, str | None]] = []
        self.answers: dict[str, tuple[int, dict[str, str], Any]] = {}
        self.token = self.realm = ""
        self.hung_up = False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def manifest(self, value: Any, reference: str = "1", name: str = "tidy") -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        for one in (reference, digest_of(data)):
            self.answers[f"/v2/{name}/manifests/{one}"] = (200, {}, data)
        return digest_of(data)

    def blob(self, data: bytes, body: Any = None, **said: Any) -> dict[str, Any]:
        """Serve a blob, perhaps with another body; gives what a manifest says of it."""
        self.answers[f"/v2/tidy/blobs/{digest_of(data)}"] = (200, {}, data if body is None else body)
        return {"mediaType": "application/x.tar+gzip", "digest": digest_of(data), "size": len(data), **said}

    def artifact(self, *layers: dict[str, Any], reference: str = "1", name: str = "tidy") -> str:
        value = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "config": {}, "layers": layers}
        return self.manifest(value, reference, name)

    def fetch(self, into: Path, ref: str = "1", *, credentials: FindCredentials = no_credentials) -> Path:
        limits = PackageLimits(archive=1024 * 1024)
        fetcher = OciFetcher(limits=limits, allow_private=True, credentials=credentials)
        return fetcher.fetch(Source("oci", f"oci+http://{self.host}/tidy", ref=ref), into).tree


@pytest.fixture
def there() -> Iterator[_Registry]:
    registry = _Registry()
    thread = threading.Thread(target=registry.server.serve_forever)
    thread.start()
    yield registry
    registry.server.shutdown()
    registry.server.server_close()
    thread.join()


def refused(there: _Registry, into: Path, error: type[SkillyardError], ref: str = "1", **how: Any) -> SkillyardError:
    """The error of a fetch, of which nothing may stay but empty folders."""
    with pytest.raises(error) as caught:
        there.fetch(into, ref, **how)
    assert [path for path in into.rglob("*") if path.is_file()] == []
    return caught.value


def test_the_registry_of_these_tests_can_be_installed_from(there: _Registry, tmp_path: Path) -> None:
    there.artifact(there.blob(LAYER))
    assert (there.fetch(tmp_path) / "SKILL.md").read_bytes() == SKILL


def test_a_blob_that_is_not_what_its_digest_says_is_refused(there: _Registry, tmp_path: Path) -> None:
    other = LAYER[:-1] + bytes((LAYER[-1] ^ 1,))
    there.artifact(there.blob(LAYER, body=other))
    error = refused(there, tmp_path, DigestMismatch)
    assert error.details == {"expected": digest_of(LAYER), "found": digest_of(other)}


@pytest.mark.parametrize("size", [len(LAYER) - 1, len(LAYER) + 1])
def test_a_blob_of_another_size_is_refused(there: _Registry, tmp_path: Path, size: int) -> None:
    there.artifact(there.blob(LAYER, size=size))
    refused(there, tmp_path, DigestMismatch)


def test_of_a_blob_without_an_end_no_more_is_read_than_was_said(there: _Registry, tmp_path: Path) -> None:
    there.artifact(there.blob(LAYER, body=ENDLESS))
    refused(there, tmp_path, DigestMismatch)


def test_layers_that_are_too_large_together_are_not_asked_for(there: _Registry, tmp_path: Path) -> None:
    half = there.blob(LAYER, size=600 * 1024)
    there.artifact(half, half)
    refused(there, tmp_path, ArchiveTooLarge)
    assert [path for path, _ in there.asked] == ["/v2/tidy/manifests/1"]


def test_a_manifest_that_is_not_what_its_digest_says_is_refused(there: _Registry, tmp_path: Path) -> None:
    digest = there.artifact(there.blob(LAYER))
    there.answers[f"/v2/tidy/manifests/{digest}"] = (200, {}, b'{"layers": []}')
    refused(there, tmp_path, DigestMismatch, digest)
    there.answers["/v2/tidy/manifests/1"] = (200, {"Docker-Content-Digest": digest_of(b"")}, b'{"layers": []}')
    refused(there, tmp_path, DigestMismatch)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (ENDLESS, ArchiveTooLarge),
        (b"[" * 100_000, InvalidSource),
        (b'{"layers": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}", InvalidSource),
        (b"\xff\xfe", InvalidSource),
        (b"[]", InvalidSource),
        (b'{"layers": {}}', InvalidSource),
        (json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": []}).encode(), InvalidSource),
        (json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": [None]}).encode(), InvalidSource),
        (json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": [{"digest": "sha512:ab", "size": 1}]}).encode(), InvalidSource),
        (
            json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": [{"digest": digest_of(b""), "size": -1}]}).encode(),
            InvalidSource,
        ),
        (
            json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": [{"digest": digest_of(b""), "size": True}]}).encode(),
            InvalidSource,
        ),
        (json.dumps({"mediaType": MANIFEST_TYPES[0], "layers": [{}] * 33}).encode(), TooManyFiles),
        (json.dumps({"mediaType": INDEX_TYPES[0], "manifests": [{}] * 101}).encode(), TooManyFiles),
        (json.dumps({"mediaType": INDEX_TYPES[0], "manifests": []}).encode(), InvalidSource),
    ],
)
def test_a_manifest_that_is_none_is_refused(there: _Registry, tmp_path: Path, body: Any, error: type[SkillyardError]) -> None:
    there.answers["/v2/tidy/manifests/1"] = (200, {"Content-Type": MANIFEST_TYPES[0]}, body)
    refused(there, tmp_path, error)


@pytest.mark.parametrize(
    "layer",
    [
        tar_of((member("SKILL.md"), SKILL), (member("../../outside"), b"x")),
        tar_of((member("SKILL.md"), SKILL), (member("/etc/outside"), b"x")),
        tar_of((member("SKILL.md"), SKILL), (member("link", b"2", link="/etc"), b"")),
    ],
)
def test_the_rules_of_archives_hold_for_layers(there: _Registry, tmp_path: Path, layer: bytes) -> None:
    there.artifact(there.blob(layer))
    refused(there, tmp_path, ArchiveRefused)


def test_a_layer_that_unpacks_to_too_much_is_refused(there: _Registry, tmp_path: Path) -> None:
    there.artifact(there.blob(gzip.compress(bytes(200 * 1024 * 1024), 1, mtime=0)))
    refused(there, tmp_path, ArchiveRefused)


def test_a_title_cannot_lead_out_of_the_folder(there: _Registry, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    there.artifact(there.blob(b"x", annotations={"org.opencontainers.image.title": "../outside"}))
    refused(there, into, ArchiveRefused)
    assert not (tmp_path / "outside").exists()


def index(there: _Registry, *entries: dict[str, Any]) -> None:
    there.manifest({"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": entries})


def test_a_list_of_lists_is_refused(there: _Registry, tmp_path: Path) -> None:
    inner = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": []}
    digest = there.manifest(inner, "inner")
    index(there, {"digest": digest, "size": 1}, {"digest": digest, "size": 1})
    refused(there, tmp_path, InvalidSource)


def test_a_list_that_is_too_large_unpacked_is_refused(there: _Registry, tmp_path: Path) -> None:
    digest = there.artifact(there.blob(tar_of((member("SKILL.md"), SKILL), (member("large"), bytes(900_000)))), reference="x")
    index(there, *({"digest": digest, "size": 1} for _ in range(4)))
    fetcher = OciFetcher(limits=PackageLimits(listed=2_000_000), allow_private=True, credentials=no_credentials)
    with pytest.raises(ArchiveTooLarge, match="the collection"):
        fetcher.fetch(Source("oci", f"oci+http://{there.host}/tidy", ref="1"), tmp_path)


def test_a_list_may_name_a_repository_of_the_same_host_and_no_other(there: _Registry, tmp_path: Path) -> None:
    digest = there.artifact(there.blob(LAYER), reference="x", name="more/tidy")
    there.answers[f"/v2/more/tidy/blobs/{digest_of(LAYER)}"] = there.answers.pop(f"/v2/tidy/blobs/{digest_of(LAYER)}")
    listed = {"digest": digest, "size": 1}
    index(there, listed | {"annotations": {"io.agentskills.skill.ref": f"{there.host}/more/tidy:1"}})
    assert (there.fetch(tmp_path) / "SKILL.md").is_file()
    for named in ("other.example/more/tidy:1", f"{there.host}/../x", "", there.host):
        index(there, listed | {"annotations": {"io.agentskills.skill.ref": named}})
        with pytest.raises(InvalidSource):
            there.fetch(tmp_path)


@pytest.mark.abuse("E8")
@pytest.mark.parametrize("target", ["http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]/", "http://0.0.0.0:1/"])
def test_a_registry_cannot_send_us_to_an_address_that_is_closed(there: _Registry, tmp_path: Path, target: str) -> None:
    there.artifact(layer := there.blob(LAYER))
    there.answers[f"/v2/tidy/blobs/{layer['digest']}"] = (307, {"Location": target}, b"")
    refused(there, tmp_path, NetworkRefused)


@pytest.mark.abuse("E8")
@pytest.mark.parametrize("target", ["file:///etc/passwd", "/v2/tidy/circle", "http://["])
def test_a_redirect_leads_to_the_web_and_not_in_a_circle(there: _Registry, tmp_path: Path, target: str) -> None:
    there.artifact(layer := there.blob(LAYER))
    there.answers[f"/v2/tidy/blobs/{layer['digest']}"] = there.answers["/v2/tidy/circle"] = (307, {"Location": target}, b"")
    refused(there, tmp_path, SkillyardError)


def test_a_token_is_asked_for_once_and_stays_with_the_registry(there: _Registry, tmp_path: Path) -> None:
    there.artifact(layer := there.blob(LAYER))
    there.token, there.realm = "abc", f"http://{there.host}/token"
    there.answers["/token"] = (200, {}, json.dumps({"token": "abc"}).encode())
    there.answers[f"/v2/tidy/blobs/{layer['digest']}"] = (307, {"Location": f"http://localhost:{there.host[10:]}/kept"}, b"")
    there.answers["/kept"] = (200, {}, LAYER)
    there.fetch(tmp_path, credentials=lambda _: ME)
    assert there.asked == [
        ("/v2/tidy/manifests/1", None), ("/token", ME.header()["Authorization"]), ("/v2/tidy/manifests/1", "Bearer abc"),
        (f"/v2/tidy/blobs/{layer['digest']}", "Bearer abc"), ("/kept", None),
    ]  # fmt: skip


@pytest.mark.abuse("E8")
@pytest.mark.parametrize("realm", ["http://localhost:9/token", "https://evil.example/token", "file:///token", "http://["])
def test_credentials_are_not_given_to_a_token_service_elsewhere(there: _Registry, tmp_path: Path, realm: str) -> None:
    there.artifact(there.blob(LAYER))
    there.token, there.realm = "abc", realm
    error = refused(there, tmp_path, InvalidSource, credentials=lambda _: ME)
    assert "pass-word" not in str(error)
    assert [authorization for _, authorization in there.asked] == [None]


@pytest.mark.parametrize(
    ("realm", "registry", "related"),
    [
        ("https://auth.docker.io/token", "https://registry-1.docker.io/v2/", True),
        ("https://gitlab.com/jwt/auth", "https://registry.gitlab.com/v2/", True),
        ("https://ghcr.io/token", "https://ghcr.io/v2/", True),
        ("http://ghcr.io/token", "https://ghcr.io/v2/", False),
        ("https://evil.io/token", "https://ghcr.io/v2/", False),
        ("https://10.0.0.2/token", "https://10.0.0.1/v2/", False),
        ("https://ghcr.io.evil.example/token", "https://ghcr.io/v2/", False),
    ],
)
def test_a_token_service_is_that_of_the_registry(realm: str, registry: str, related: bool) -> None:
    from skillyard.registry.oci_registry import _is_related

    assert _is_related(realm, registry) is related


@pytest.mark.parametrize("body", [b"{}", b'{"token": 1}', b'{"token": "a\\nb"}', b"no", ENDLESS])
def test_a_token_service_without_a_token_is_reported(there: _Registry, tmp_path: Path, body: Any) -> None:
    there.token, there.realm = "abc", f"http://{there.host}/token"
    there.answers["/token"] = (200, {}, body)
    refused(there, tmp_path, SkillyardError)


def test_a_token_that_is_not_taken_ends_it(there: _Registry, tmp_path: Path) -> None:
    there.token, there.realm = "abc", f"http://{there.host}/token"
    there.answers["/token"] = (200, {}, b'{"access_token": "other"}')
    refused(there, tmp_path, InvalidSource)
    assert len(there.asked) == 3


def test_what_a_registry_says_of_an_upload_is_held_against_the_digest(there: _Registry) -> None:
    repository = OciRepository(f"oci+http://{there.host}/tidy", allow_private=True)
    with pytest.raises(SkillyardError):
        repository.put_blob(b"data")  # it knows neither POST nor PUT
