"""Another Skillyard server: what is published to it and changed there.

What a server answers is untrusted: it is read strictly, and its errors become those of the same code here. Redirects are not
followed, so that a key goes to no other server.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Final
from urllib.parse import quote, urlencode

from skillyard.errors import ArchiveTooLarge, NetworkFailed, NetworkRefused, SignInRequired, SkillyardError
from skillyard.packages import PackageLimits
from skillyard.plain_json import read_json
from skillyard.registry.logins import Login, check_key, server_address, server_origin
from skillyard.registry.registry_values import ListedApproval
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm, wire

_LARGEST_ANSWER: Final = 64 * 1024 * 1024  # an inspection has the text of every file that differs

_TIMEOUT_S: Final = 60.0

_UPLOAD_S: Final = 600.0

_LONGEST: Final = 2000

_SKILLS: Final = "/api/v1/skill-definitions"


@dataclass(frozen=True, slots=True)
class FileChange(WireForm):
    """One file that publishing changes: `added`, `removed` or `changed`, with how many lines came and went."""

    path: str
    change: str
    lines_added: int
    lines_removed: int


@dataclass(frozen=True, slots=True)
class RemoteRefusal(WireForm):
    """Why the server would refuse it."""

    code: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class PublishPreview(WireForm, also=("state",)):
    """What others will see of a skill once it is published to a server; nothing was.

    `current` is the version the server has now; without one, `gone` are those that it had, the newest first, each with its
    state, and the name is new there when there are none. `powers` is what the skill may do, one
    sentence each, and `widened` what beyond the current version: publishing that needs `consent`.
    """

    server: str
    skill_id: str
    name: str
    description: str
    version: str
    current: str | None
    digest: str
    size_bytes: int
    files: tuple[str, ...]
    powers: tuple[str, ...]
    widened: tuple[str, ...]
    findings: tuple[Mapping[str, object], ...]
    changes: tuple[FileChange, ...]
    refusals: tuple[RemoteRefusal, ...]
    warnings: tuple[str, ...]
    unchanged: bool
    gone: tuple[str, ...] = ()
    consent: str = field(default="", metadata=wire(hidden=True))

    @property
    def state(self) -> str:
        """`refused`, `unchanged`, `new` or `update`."""
        if self.refusals:
            return "refused"
        if self.unchanged:
            return "unchanged"
        return "new" if self.current is None else "update"

    def changelog(self) -> str:
        """What is new against the version of the server, one line each; the first version has nothing to compare."""
        if self.current is None:
            return f"the first version after {self.gone[0]}" if self.gone else "first version"
        lines = [_change_line(change) for change in self.changes[:_LISTED]]
        if len(self.changes) > _LISTED:
            lines.append(f"and {len(self.changes) - _LISTED} more files")
        lines += [f"new power: {sentence}" for sentence in self.widened[:_LISTED]]
        return shorten("\n".join(lines), _NOTES)


_LISTED: Final = 40

_NOTES: Final = 3800  # characters that a server takes with a version are 4,000


def _fate(version: Mapping[str, object]) -> str:
    """Why a server does not give out a version."""
    if version.get("approval") == "waiting":
        return "waits for approval"
    if version.get("yanked") is not True:
        return "was uninstalled there"
    reason = _optional(version, "yanked_reason")
    return "was withdrawn" + (f": {single_line(reason)}" if reason else "")


def _change_line(change: FileChange) -> str:
    counts = [f"{sign}{count}" for sign, count in (("+", change.lines_added), ("-", change.lines_removed)) if count]
    lines = f" ({' '.join(counts)})" if change.change == "changed" and counts else ""
    return f"{change.change} {change.path}{lines}"


class RemoteServer:
    """A Skillyard server at `address`, asked with `key`; its methods block.

    Without encryption a key is only sent to this machine, and with `allow_plain` to every host.

    Raises, from every method:
        NetworkFailed: it cannot be reached, breaks off, or does not answer as such a server does.
        SignInRequired: it needs a key, or another one.
        PermissionDenied: the key has not got the scope.
        SkillyardError: what it refused, with its own code and words.
    """

    def __init__(self, address: str, key: str = "", *, allow_plain: bool = False) -> None:
        self.address = server_address(address)
        self._key = check_key(key)
        scheme, authority = server_origin(self.address)
        self._allow = (f"{scheme}://{authority}",)
        host = authority.rpartition(":")[0] or authority
        here = host in ("localhost", "[::1]") or host.startswith("127.")
        if scheme == "http" and key and not (here or allow_plain):
            raise NetworkRefused(
                f"a key is not sent to {self.address} without encryption",
                hint="use its https:// address; `private-hosts = true` in [packages] of your own skillyard.toml allows http://",
            )

    def login(self) -> Login:
        """Who the key is at the server.

        Raises:
            SignInRequired: nobody.
        """
        data = self._asked("GET", "/api/v1/session")
        caller, organisation = _optional(data, "caller"), _optional(data, "organisation")
        if caller is None:
            raise SignInRequired(f"{self.address} needs a key", hint="ask its operator: `skillyard keys create` makes one")
        return Login(self.address, self._key, caller, organisation or "")

    def preview(self, archive: bytes, skill_id: str, *, version: str) -> PublishPreview:
        """What others would see of the one skill in an archive if it were published as that version."""
        listed = self._upload("/inspect", archive, skill_id, {"version": version})
        if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
            raise self._odd("an inspection")
        preview = self._preview(listed[0], version)
        return preview if preview.current else replace(preview, gone=self._gone(skill_id))

    def _gone(self, skill_id: str) -> tuple[str, ...]:
        """The newest versions of a skill of which none is current, each with its result; none where it is new."""
        try:
            listed = self._request("GET", f"{_SKILLS}/{_word(skill_id)}/versions", b"", "application/json", _TIMEOUT_S)
        except SkillyardError as error:
            if error.code != "skill_not_found":
                raise
            return ()
        versions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return tuple(f"{self._label(one)}, which {_fate(one)}" for one in versions)

    def publish(
        self,
        archive: bytes,
        skill_id: str,
        *,
        version: str,
        notes: str = "",
        consent: str = "",
        accept_source: bool = False,
        accept_signer: bool = False,
        accept: Collection[str] = (),
    ) -> str:
        """Publish the one skill in an archive; gives `installed`, `updated`, or `unchanged` where exactly it is current."""
        query: dict[str, str | list[str]] = {"version": version, "notes": notes, "consent": consent, "accept": list(accept)}
        query |= {name: "true" for name, value in (("accept_source", accept_source), ("accept_signer", accept_signer)) if value}
        data = self._upload("/upload-create", archive, skill_id, query)
        results = data.get("results") if isinstance(data, dict) else None
        if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], dict):
            raise self._odd("the result of an install")
        return self._text(results[0], "status")

    def owners(self, skill_id: str) -> tuple[str, ...]:
        """Who owns the name of a skill; nobody where it is not claimed."""
        return self._owners(self._asked("GET", f"{_SKILLS}/{_word(skill_id)}/owners"))

    def change_owners(self, skill_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add owners and take others away in one step; gives those there are then."""
        body = {"add": list(add), "remove": list(remove)}
        return self._owners(self._asked("POST", f"{_SKILLS}/{_word(skill_id)}/owners", body))

    def mark(self, skill_id: str, version: str | None, mark: str, *, reason: str = "", undo: bool = False) -> tuple[str, bool]:
        """Mark a version (`deprecate` or `yank`), by default the current one; gives its name and whether it still serves.

        What is yanked stops serving: the newest usable version before it becomes current, or none.
        """
        body: dict[str, object] = {"reason": reason, "undo": undo} | ({"stop_serving": True} if mark == "yank" else {})
        return self._marked(skill_id, version or "current", mark, body)

    def _marked(self, skill_id: str, version: str, mark: str, body: Mapping[str, object]) -> tuple[str, bool]:
        data = self._asked("POST", f"{_SKILLS}/{_word(skill_id)}/versions/{_word(version)}/{mark}", body)
        origin = data.get("origin")
        label = _optional(origin, "version") if isinstance(origin, dict) else None
        return label or _optional(data, "declared_version") or self._text(data, "version"), data.get("current") is True

    def waiting(self) -> tuple[ListedApproval, ...]:
        """The versions that wait for approval there, the longest waiting first."""
        listed = self._request("GET", "/api/v1/approvals/versions", b"", "application/json", _TIMEOUT_S)
        return tuple(self._waiting(one) for one in self._objects({"versions": listed}, "versions"))

    def _waiting(self, shape: Mapping[str, object]) -> ListedApproval:
        try:
            asked_at = datetime.fromisoformat(self._text(shape, "asked_at"))
        except ValueError:
            raise self._odd("no asked_at") from None
        return ListedApproval(
            skill_id=self._text(shape, "skill_id"),
            version=self._text(shape, "version"),
            label=_optional(shape, "label") or "",
            digest=self._text(shape, "digest"),
            state="waiting",
            reasons=self._texts(shape, "reasons"),
            asked_by=self._text(shape, "asked_by"),
            asked_at=asked_at,
            decided_by=None,
            decided_at=None,
            reason=None,
            current=_optional(shape, "current"),
            power_sentences=self._texts(shape, "power_sentences"),
            widened=self._texts(shape, "widened"),
            refusal=_optional(shape, "refusal"),
        )

    def decide(
        self, skill_id: str, version: str, *, digest: str = "", reason: str = "", undo: bool = False
    ) -> tuple[str, bool]:
        """Approve a version, or with `undo` withdraw its approval; gives its name and whether it serves."""
        return self._marked(skill_id, version, "approve", {"reason": reason, "undo": undo, "digest": digest})

    def _owners(self, data: Mapping[str, object]) -> tuple[str, ...]:
        return self._texts(data, "owners")

    def _preview(self, shape: Mapping[str, object], version: str) -> PublishPreview:
        change, installed = shape.get("change"), shape.get("installed")
        change = change if isinstance(change, dict) else {}
        return PublishPreview(
            server=self.address,
            skill_id=self._text(shape, "skill_id"),
            name=self._text(shape, "name"),
            description=self._text(shape, "description"),
            version=version,
            current=self._label(installed) if isinstance(installed, dict) and installed.get("current") else None,
            digest=self._text(shape, "digest"),
            size_bytes=self._number(shape, "size_bytes"),
            files=tuple(self._text(file, "path") for file in self._objects(shape, "files")),
            powers=self._texts(shape, "power_sentences"),
            widened=self._texts(change, "widened") if change else (),
            findings=tuple(self._objects(shape, "findings")),
            changes=self._changes(shape.get("difference")),
            refusals=tuple(
                RemoteRefusal(self._text(one, "code"), self._text(one, "message"), _optional(one, "hint"))
                for one in self._objects(shape, "refusals")
            ),
            warnings=self._texts(shape, "warnings"),
            unchanged=shape.get("unchanged") is True,
            consent=self._text(change, "consent") if change else "",
        )

    def _label(self, version: Mapping[str, object]) -> str:
        origin = version.get("origin")
        label = _optional(origin, "version") if isinstance(origin, dict) else None
        return label or _optional(version, "declared_version") or self._text(version, "version")

    def _changes(self, difference: object) -> tuple[FileChange, ...]:
        if not isinstance(difference, dict):
            return ()
        changes = []
        for file in self._objects(difference, "files"):
            text = file.get("lines")
            lines = text.splitlines()[2:] if isinstance(text, str) else []
            counts = [sum(line.startswith(sign) for line in lines) for sign in "+-"]
            changes.append(FileChange(self._text(file, "path"), self._text(file, "change"), *counts))
        return tuple(changes)

    def _upload(self, path: str, archive: bytes, skill_id: str, query: Mapping[str, str | list[str]]) -> object:
        limit = PackageLimits().archive
        if len(archive) > limit:
            raise ArchiveTooLarge(f"the package is over {limit >> 20} MB", hint="leave out what the skill does not need")
        border = f"skillyard-{secrets.token_hex(16)}"
        disposition = f'Content-Disposition: form-data; name="file"; filename="{skill_id}.zip"'
        head = f"--{border}\r\n{disposition}\r\nContent-Type: application/zip\r\n\r\n"
        body = head.encode() + archive + f"\r\n--{border}--\r\n".encode()
        given = {name: value for name, value in query.items() if value}
        asked = f"{_SKILLS}{path}?{urlencode(given, doseq=True)}"
        return self._request("POST", asked, body, f"multipart/form-data; boundary={border}", _UPLOAD_S)

    def _asked(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
        import json

        data = self._request(
            method, path, json.dumps(body).encode() if body is not None else b"", "application/json", _TIMEOUT_S
        )
        if not isinstance(data, dict):
            raise self._odd("an object")
        return data

    def _request(self, method: str, path: str, body: bytes, kind: str, timeout_s: float) -> object:
        """What is under `data` in the answer to one request."""
        from skillyard.network import guarded_request
        from skillyard.registry.source_host_policy import run_in_thread

        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if body else {})
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        answer = run_in_thread(
            guarded_request(
                method, self.address + path, allow=self._allow, headers=headers, body=body, timeout_s=timeout_s,
                max_bytes=_LARGEST_ANSWER, allow_private=True,
            )
        )  # fmt: skip
        try:
            shape = read_json(answer.body.decode())
        except ValueError:
            shape = None
        if 200 <= answer.status < 300 and isinstance(shape, dict) and "data" in shape:
            return shape["data"]
        raise self._refusal(answer.status, shape if isinstance(shape, dict) else {})

    def _refusal(self, status: int, shape: Mapping[str, object]) -> SkillyardError:
        """The error that an answer is, of its own code."""
        code, message, hint = (_optional(shape, name) for name in ("code", "detail", "hint"))
        kind = _error_of(code or "")
        if kind is not None and message is not None and status >= 400:
            if kind is SignInRequired:
                hint = f"`skillyard login {self.address}` with a key that holds there"
            return kind(f"{self.address}: {message}", hint=hint or "ask the operator of that server")
        if status == 413:
            return ArchiveTooLarge(f"{self.address} takes nothing so large", hint="leave out what the skill does not need")
        if 300 <= status < 400:
            return NetworkFailed(f"{self.address} leads elsewhere", hint="name the server by the address it has now")
        return self._odd(f"status {status}")

    def _odd(self, what: str) -> NetworkFailed:
        return NetworkFailed(
            f"{self.address} does not answer as a Skillyard server does ({what})",
            hint="check the address: it is that of `skillyard serve`",
        )

    def _text(self, shape: Mapping[str, object], name: str) -> str:
        value = shape.get(name)
        if not isinstance(value, str):
            raise self._odd(f"no {name}")
        return shorten(single_line(value), _LONGEST)

    def _number(self, shape: Mapping[str, object], name: str) -> int:
        value = shape.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._odd(f"no {name}")
        return value

    def _texts(self, shape: Mapping[str, object], name: str) -> tuple[str, ...]:
        values = shape.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self._odd(f"no {name}")
        return tuple(shorten(single_line(value), _LONGEST) for value in values)

    def _objects(self, shape: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
        values = shape.get(name)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self._odd(f"no {name}")
        return values


def _optional(shape: Mapping[str, object], name: str) -> str | None:
    value = shape.get(name)
    return shorten(single_line(value), _LONGEST) if isinstance(value, str) and value else None


def _word(text: str) -> str:
    return quote(text, safe="")


@cache
def _errors() -> Mapping[str, type[SkillyardError]]:
    """Every error of the table by its code."""
    found: dict[str, type[SkillyardError]] = {}
    waiting: list[type[SkillyardError]] = [SkillyardError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__ == SkillyardError.__module__ and kind is not SkillyardError:
            found.setdefault(kind.code, kind)
    return found


def _error_of(code: str) -> type[SkillyardError] | None:
    return _errors().get(code)
