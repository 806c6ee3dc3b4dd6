"""One repository of an OCI registry: its manifests and blobs, read and written, by the distribution specification 1.1.

Everything is named by the digest of its bytes, which is checked here. Every address is contacted under the host policy of
sources: the registry's own, that of its token service, and where it sends the reader of a blob. Credentials are what
`docker login` or `podman login` keep, or `$SKILLYARD_OCI_AUTH`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from skillyard.errors import ArchiveTooLarge, DigestMismatch, InvalidConfiguration, InvalidSource, NetworkFailed
from skillyard.network import GuardedResponse
from skillyard.packages import digest_of
from skillyard.packages.digest import DIGEST_PATTERN
from skillyard.plain_json import read_json
from skillyard.registry.source_host_policy import (
    explain_private_hosts,
    follow_redirects,
    joined_address,
    refused_answer,
    run_in_thread,
)
from skillyard.text import limit_words, single_line

INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
)  # fmt: skip
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
)  # fmt: skip
_LARGEST_MANIFEST: Final = 4 * 1024 * 1024
_LARGEST_TOKEN: Final = 64 * 1024
_LARGEST_FILE: Final = 1024 * 1024
_UPLOAD_S: Final = 600.0
_HELPER_S: Final = 20
_VARIABLE: Final = "SKILLYARD_OCI_AUTH"
_MOVED: Final[Mapping[str, str]] = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_HUB: Final = ("https://index.docker.io/v1/", "docker.io", "index.docker.io")
_LOOPBACK: Final = re.compile(r"(?:localhost|127\.[0-9.]+|\[::1\])(?::[0-9]+)?")
_HELPER: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CHALLENGE: Final = re.compile(r'([a-z_]{1,20})="([^"]{0,2000})"')
_LOGIN: Final = f"`docker login` or `podman login` to it, or set {_VARIABLE}=HOST=USER:PASSWORD"


class RegistryCredentials(NamedTuple):
    """A user name and password, or an `identity` token instead of both."""

    user: str
    password: str
    identity: str = ""

    def header(self) -> dict[str, str]:
        """As the header of a request."""
        return {"Authorization": f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"}


FindCredentials = Callable[[str], RegistryCredentials | None]
"""What is known for a host and its port, with `http://` before it where they would be sent without encryption."""


def no_credentials(_host: str) -> RegistryCredentials | None:
    """Nothing is known: for callers other than the user of this machine."""
    return None


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest or an index: its digest, its media type, what it says, and its bytes."""

    digest: str
    media_type: str
    value: Mapping[str, object]
    data: bytes


class OciRepository:
    """The repository at `address` (`oci://HOST/NAME`, or `oci+http://` without encryption).

    Its methods raise, beside what they name:
        InvalidSource: there is no such thing, or one may not read or write it.
        NetworkRefused, NetworkFailed: the registry may not be contacted, or did not answer properly.
    """

    def __init__(
        self, address: str, *, allow_private: bool = False, credentials: FindCredentials = no_credentials, write: bool = False
    ) -> None:
        scheme, _, rest = address.partition("://")
        self.host, _, self.name = rest.partition("/")
        self.shown = f"{self.host}/{self.name}"
        self.scheme = f"{scheme}://"
        self._root = f"{'http' if scheme == 'oci+http' else 'https'}://{_MOVED.get(self.host, self.host)}/v2/"
        self._allow_private = allow_private
        self._credentials = credentials
        self._scope = f"repository:{self.name}:{'pull,push' if write else 'pull'}"
        self._authorization: dict[str, str] = {}

    def manifest(self, reference: str) -> FoundManifest:
        """The manifest or index with a digest or a tag.

        Raises:
            DigestMismatch: it is another than its digest says.
            ArchiveTooLarge: it is over 4 MB.
        """
        found = self.find_manifest(reference)
        if found is None:
            raise InvalidSource(f"{self.shown} has no {reference}", hint="check the repository and the tag")
        return found

    def find_manifest(self, reference: str) -> FoundManifest | None:
        """As `manifest`; None when there is none."""
        accept = {"Accept": ", ".join((*MANIFEST_TYPES, *INDEX_TYPES))}
        try:
            answer, _ = self._request("GET", self._url(f"manifests/{reference}"), limit=_LARGEST_MANIFEST, headers=accept)
        except NetworkFailed as error:
            if error.details.get("limit") != _LARGEST_MANIFEST:
                raise
            raise ArchiveTooLarge(
                f"the manifest {reference} of {self.shown} is over {limit_words(_LARGEST_MANIFEST)}",
                hint="it is not a manifest of a skill",
                limit=_LARGEST_MANIFEST,
            ) from None
        if answer.status == 404:
            return None
        self._require(answer, 200, f"manifest {reference}")
        digest = digest_of(answer.body)
        promised = reference if ":" in reference else answer.headers.get("docker-content-digest", digest)
        if promised.startswith("sha256:") and promised != digest:
            raise self._mismatch(f"the manifest {reference}", promised, digest)
        value = self._object(answer.body, f"the manifest {reference}")
        media_type = str(value.get("mediaType") or answer.headers.get("content-type", "").partition(";")[0].strip())
        return FoundManifest(digest, media_type, value, answer.body)

    def blob(self, digest: str, size: int) -> bytes:
        """The blob with this digest, which has `size` bytes; no more are read.

        Raises:
            DigestMismatch: it is another, or has another size.
        """
        try:
            answer, _ = self._request("GET", self._url(f"blobs/{digest}"), limit=size)
        except NetworkFailed as error:
            if error.details.get("limit") != size:
                raise
            raise self._mismatch(f"a blob of {size:,} bytes", digest, f"more than {size:,} bytes") from None
        self._require(answer, 200, f"blob {digest}")
        if len(answer.body) != size:
            raise self._mismatch(f"a blob of {size:,} bytes", digest, f"{len(answer.body):,} bytes")
        if (found := digest_of(answer.body)) != digest:
            raise self._mismatch("a blob", digest, found)
        return answer.body

    def put_blob(self, data: bytes) -> bool:
        """Make sure that the registry has a blob; False when it had it already."""
        digest = digest_of(data)
        answer, _ = self._request("HEAD", self._url(f"blobs/{digest}"), limit=0)
        if answer.status == 200:
            return False
        answer, begun = self._request("POST", self._url("blobs/uploads/"), limit=_LARGEST_FILE)
        self._require(answer, 202, "upload")
        target = joined_address(begun, answer.headers.get("location", ""))
        target += ("&" if urlsplit(target).query else "?") + urlencode({"digest": digest})
        answer, _ = self._request(
            "PUT", target, limit=_LARGEST_FILE, body=data, headers={"Content-Type": "application/octet-stream"}
        )
        self._require(answer, 201, "upload")
        return True

    def put_manifest(self, reference: str, data: bytes, media_type: str) -> str:
        """Write a manifest under a tag or its digest; gives the digest.

        Raises:
            DigestMismatch: the registry has kept another one.
        """
        headers = {"Content-Type": media_type}
        answer, _ = self._request("PUT", self._url(f"manifests/{reference}"), limit=_LARGEST_FILE, body=data, headers=headers)
        self._require(answer, 201, f"manifest {reference}")
        digest = digest_of(data)
        kept = answer.headers.get("docker-content-digest", digest)
        if kept != digest:
            raise self._mismatch(f"the manifest {reference}", digest, kept)
        return digest

    def _url(self, path: str) -> str:
        return f"{self._root}{self.name}/{path}"

    def _request(
        self, method: str, url: str, *, limit: int, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[GuardedResponse, str]:
        """The answer and its address; credentials are asked for when the registry does, and go to the registry alone."""

        def ask() -> tuple[GuardedResponse, str]:
            # An upload may be sent to another host, which gets no authorization of ours.
            ours = urlsplit(url)[:2] == urlsplit(self._root)[:2]
            return self._send(
                method, url, limit=limit, headers=headers or {}, secret=self._authorization if ours else {}, body=body
            )

        answer, at = ask()
        if answer.status == 401 and not self._authorization and urlsplit(at)[:2] == urlsplit(self._root)[:2]:
            self._authorization = self._authorize(answer.headers.get("www-authenticate", ""))
            answer, at = ask() if self._authorization else (answer, at)
        return answer, at

    def _send(
        self, method: str, url: str, *, limit: int, headers: Mapping[str, str], secret: Mapping[str, str], body: bytes
    ) -> tuple[GuardedResponse, str]:
        with explain_private_hosts():
            return run_in_thread(
                follow_redirects(
                    method, url, limit=limit, allow_private=self._allow_private, headers=headers, secret=secret, body=body,
                    timeout_s=_UPLOAD_S,
                )
            )  # fmt: skip

    def _authorize(self, challenge: str) -> dict[str, str]:
        """The header that answers a challenge; empty when there is nothing to answer with."""
        kind, _, rest = challenge[:8000].partition(" ")
        known = self._credentials(self.host if self._root.startswith("https:") else f"http://{self.host}")
        if kind.lower() == "basic":
            return known.header() if known is not None and not known.identity else {}
        if kind.lower() != "bearer":
            return {}
        words = dict(_CHALLENGE.findall(rest))
        realm, service = joined_address(self._root, words.get("realm", "")), words.get("service", "")
        if known is not None and not _is_related(realm, self._root):
            raise InvalidSource(
                f"{self.host} wants its credentials sent to {urlsplit(realm).netloc[:200]}",
                hint="that is another owner's host; nothing was sent. Log out of the registry to read it as everybody may",
            )
        return {"Authorization": f"Bearer {self._token(realm, service, known)}"}

    def _token(self, realm: str, service: str, known: RegistryCredentials | None) -> str:
        query = {"service": service, "scope": self._scope}
        if known is not None and known.identity:
            form = {**query, "grant_type": "refresh_token", "refresh_token": known.identity, "client_id": "skillyard"}
            method, url, body = "POST", realm, urlencode(form).encode()
        else:
            method, url, body = "GET", f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}", b""
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        secret = known.header() if known is not None and not body else {}
        answer, at = self._send(method, url, limit=_LARGEST_TOKEN, headers=headers, secret=secret, body=body)
        if answer.status != 200:
            raise self._refused(answer.status, at, "token")
        value = self._object(answer.body, "the token")
        token = value.get("token") or value.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise InvalidSource(f"the token service of {self.host} gave no token", hint="check the address of the registry")
        return token

    def _require(self, answer: GuardedResponse, status: int, what: str) -> None:
        if answer.status != status:
            raise self._refused(answer.status, self._root, what, answer.body)

    def _refused(self, status: int, url: str, what: str, body: bytes = b"") -> InvalidSource | NetworkFailed:
        if status in (401, 403):
            return InvalidSource(f"{self.shown} refused the {what} ({status})", hint=_LOGIN)
        if status == 404:
            return InvalidSource(f"{self.shown} has no {what}", hint="check the repository and the tag")
        error = refused_answer(status, url)
        said = single_line(body[:300].decode("utf-8", "replace"))
        return type(error)(f"{self.shown}: {what}: {error.message}{f': {said}' if said else ''}", hint=error.hint)

    def _object(self, data: bytes, what: str) -> Mapping[str, object]:
        try:
            value = read_json(data.decode())
        except ValueError as error:
            raise InvalidSource(f"{what} of {self.shown} is not JSON: {error}", hint="check the address") from None
        if not isinstance(value, dict):
            raise InvalidSource(f"{what} of {self.shown} is not an object", hint="check the address")
        return value

    def _mismatch(self, what: str, expected: str, found: str) -> DigestMismatch:
        return DigestMismatch(
            f"{self.shown}: {what} is not what its digest says",
            hint="ask who runs the registry; nothing was installed",
            expected=expected,
            found=found,
        )


def is_digest(text: str) -> bool:
    """Whether a reference is a digest, and not a tag."""
    return DIGEST_PATTERN.fullmatch(text) is not None


def _is_related(realm: str, root: str) -> bool:
    """Whether a token service may be given the credentials of a registry: it is the same host, one above it, or beside it."""
    service, registry = urlsplit(realm), urlsplit(root)
    if registry.scheme == "https" and service.scheme != "https":
        return False
    theirs, ours = service.hostname or "", registry.hostname or ""
    if theirs == ours:
        return True
    above = ours.partition(".")[2]
    return "." in above and not re.fullmatch(r"[0-9.]+", ours) and (theirs == above or theirs.partition(".")[2] == above)


def find_credentials(host: str) -> RegistryCredentials | None:
    """What the user of this machine has for a registry: `$SKILLYARD_OCI_AUTH`, else the files of docker and podman.

    Without encryption the files are for this machine's own registries, and the variable must name the host with `http://`.

    Raises:
        InvalidConfiguration: the variable names credentials without their host; the message does not repeat them.
    """
    for entry in os.environ.get(_VARIABLE, "").split():
        name, equals, secret = entry.partition("=")
        user, colon, password = secret.partition(":")
        if not (equals and colon and name) or "/" in name.removeprefix("http://"):
            raise InvalidConfiguration(
                f"{_VARIABLE} has a login without a host",
                hint=f"{_VARIABLE}=HOST=USER:PASSWORD, several separated by blanks",
            )
        if name.lower() == host:
            return RegistryCredentials(user, password)
    if host.startswith("http://"):
        host = host.removeprefix("http://")
        if not _LOOPBACK.fullmatch(host):
            return None
    names = _HUB if host in _MOVED else (host, f"https://{host}", f"https://{host}/v1/", f"https://{host}/v2/")
    for file in _files():
        with contextlib.suppress(OSError, ValueError):
            if file.stat().st_size <= _LARGEST_FILE and isinstance(value := read_json(file.read_text("utf-8")), dict):
                found = _from_file(value, names)
                if found is not None:
                    return found
    return None


def _files() -> Iterator[Path]:
    """The files that docker and podman keep logins in."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    folder = os.environ.get("DOCKER_CONFIG")
    yield Path(folder or Path.home() / ".docker") / "config.json"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "containers" / "auth.json"


def _from_file(value: Mapping[str, object], names: tuple[str, ...]) -> RegistryCredentials | None:
    kept, helpers = value.get("auths"), value.get("credHelpers")
    for name in names:
        entry = kept.get(name) if isinstance(kept, dict) else None
        if isinstance(entry, dict) and (found := _from_entry(entry)) is not None:
            return found
        helper = helpers.get(name) if isinstance(helpers, dict) else None
        helper = helper or (value.get("credsStore") if entry is not None else None)
        if isinstance(helper, str) and _HELPER.fullmatch(helper) and (found := _from_helper(helper, name)) is not None:
            return found
    return None


def _from_entry(entry: Mapping[str, object]) -> RegistryCredentials | None:
    identity = entry.get("identitytoken")
    if isinstance(identity, str) and identity:
        return RegistryCredentials("", "", identity)
    text = entry.get("auth")
    if isinstance(text, str) and text:
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            name, colon, secret = base64.b64decode(text).decode().rstrip("\0").partition(":")
            return RegistryCredentials(name, secret) if colon else None
    user, password = entry.get("username"), entry.get("password")
    return RegistryCredentials(user, password) if isinstance(user, str) and isinstance(password, str) else None


def _from_helper(helper: str, name: str) -> RegistryCredentials | None:
    """What the program that the user's own file names says of a registry; None when it says nothing."""
    try:
        done = subprocess.run(  # noqa: S603 # a program that the user's login file names, by a plain name
            [f"docker-credential-{helper}", "get"], input=name.encode(), capture_output=True, timeout=_HELPER_S, check=False
        )
        said = json.loads(done.stdout[:_LARGEST_FILE]) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(user := said.get("Username"), str):
        return None
    secret = said.get("Secret")
    if not isinstance(secret, str):
        return None
    return RegistryCredentials("", "", secret) if user == "<token>" else RegistryCredentials(user, secret)
