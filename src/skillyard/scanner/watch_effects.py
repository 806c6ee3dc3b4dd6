"""What a watched skill did, judged: each effect is one value with its evidence, and becomes a finding like every other.

An effect is something that happened: a secret that was read or sent, a host that was asked for, a file that was changed. How a
script is written, packed or encoded makes no difference. Secrets of the watch are canaries. One is recognized in what was sent as
it is, and in base64, base32, hexadecimal, URL encoding, compressed, archived, reversed, rotated, masked with one byte, in several
of these on top of each other, and in pieces of six characters or more.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from skillyard.scanner.finding import Effect, Finding, ScanRule, lower_severity
from skillyard.scanner.network_use import downloads_from_owner
from skillyard.scanner.source_texts import evidence_of

if TYPE_CHECKING:
    from skillyard.scanner.watch_network import RecordedRequest


_PIECE: Final = 6
_IN_PIECES: Final = 0.7
_MOST_VIEWS: Final = 60
_DEEPEST: Final = 4
_MOST_VIEWED: Final = 4 * 1024 * 1024
_LEAST_LOOKED_THROUGH: Final = 512 * 1024
"""So many bytes of what was sent are looked through, decoded ones too, and three times its length."""
_MOST_PIECED: Final = 512 * 1024
_ROTATED: Final = bytes(codecs.encode(chr(number), "rot13").encode("latin-1")[0] for number in range(256))
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE32: Final = re.compile(rb"[A-Z2-7]{24,}={0,6}")
_HEX: Final = re.compile(rb"(?:[0-9A-Fa-f]{2}){16,}")
_SPACED: Final = re.compile(rb"(?<=[A-Za-z0-9+/=])(?:\r?\n|\\n|\\r\\n)(?=[A-Za-z0-9+/=])")
_GZIP: Final = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x9c\xda]|BZh[1-9]|\xfd7zXZ\x00")


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret that is none: `token` is what it is recognized by; one of a file has its path below the home or the project.

    `mentioned` are words by which a skill's text says that it uses such a secret, `services` the domains that it is for. A
    `quiet` one is read by common tools unasked, which is no effect.
    """

    name: str
    token: str
    file: str = ""
    mentioned: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    quiet: bool = False


def find_canaries(data: bytes, canaries: Collection[Canary]) -> Iterator[tuple[Canary, str]]:
    """The canaries that are in some bytes, each with the form in which it was found first; bounded in time and memory."""
    left = {one.token.encode(): one for one in canaries}
    for view, how in _views(data):
        for token in [token for token in left if token in view]:
            yield left.pop(token), how
        if not left:
            return
    differences = _differences(data)
    for token, canary in list(left.items()):
        if _differences(token) in differences:
            yield canary, "masked with one byte"


def _views(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Some bytes and what they are when they are decoded, in several ways and several times."""
    waiting, viewed, most = [(data[:_MOST_VIEWED], "as it is", 0)], 0, _LEAST_LOOKED_THROUGH + 3 * len(data)
    seen: set[bytes] = set()
    while waiting and len(seen) < _MOST_VIEWS and viewed < most:
        view, how, depth = waiting.pop(0)
        if view in seen:
            continue
        seen.add(view)
        viewed += len(view)
        yield view, how
        if depth < _DEEPEST:
            waiting += [(one, name if how == "as it is" else f"{how}, {name}", depth + 1) for one, name in _decoded(view)]


def _whole_view(data: bytes) -> bytes:
    """Some bytes with what their encoded parts say."""
    return b"\n".join([data, *(one for one, name in _decoded(data) if name != "rotated")])


def _decoded(view: bytes) -> Iterator[tuple[bytes, str]]:
    yield view[::-1], "reversed"
    if b"%" in view:
        yield unquote_to_bytes(view.replace(b"+", b" ")), "URL encoded"
    joined = _SPACED.sub(b"", view)
    runs = _BASE64.findall(joined)[:20]
    if parts := [decoded for run in runs for decoded in _from_base64(run)]:
        yield b"\n".join(parts), "base64"
    if parts := [bytes.fromhex(run.decode()) for run in _HEX.findall(joined)[:20]]:
        yield b"\n".join(parts), "hexadecimal"
    if parts := list(_from_base32(_BASE32.findall(joined)[:20])):
        yield b"\n".join(parts), "base32"
    for match in list(_GZIP.finditer(view))[:4]:
        if unpacked := _decompressed(view[match.start() :]):
            yield unpacked, "compressed"
    if b"PK\x03\x04" in view:
        with suppress(zipfile.BadZipFile, OSError, RuntimeError, ValueError, zlib.error):
            yield _unzipped(view[view.index(b"PK\x03\x04") :]), "archived"
    yield view.translate(_ROTATED), "rotated"


def _from_base64(run: bytes) -> Iterator[bytes]:
    text = run.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
    for skipped in range(min(4, len(text))):  # what stands before it may belong to the same letters
        part = text[skipped:]
        part = part[: len(part) - (len(part) % 4 == 1)]
        with suppress(binascii.Error, ValueError):
            yield base64.b64decode(part + b"=" * (-len(part) % 4))


def _from_base32(runs: Iterable[bytes]) -> Iterator[bytes]:
    for run in runs:
        with suppress(binascii.Error, ValueError):
            text = run.rstrip(b"=")
            yield base64.b32decode(text + b"=" * (-len(text) % 8))


def _decompressed(data: bytes) -> bytes:
    try:
        if data.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(data, _MOST_VIEWED)
        if data.startswith(b"\xfd7z"):
            return lzma.LZMADecompressor().decompress(data, _MOST_VIEWED)
        return zlib.decompressobj(47).decompress(data, _MOST_VIEWED)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return b""


def _unzipped(data: bytes) -> bytes:
    parts: list[bytes] = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist()[:50]:
            with archive.open(entry) as file:
                parts.append(entry.filename.encode() + b"\n" + file.read(_MOST_VIEWED // 8))
    return b"\n".join(parts)


def _differences(data: bytes) -> bytes:
    """How each byte differs from the next, which stays the same when all are masked with one byte."""
    return (int.from_bytes(data[1:], "big") ^ int.from_bytes(data[:-1], "big")).to_bytes(max(len(data) - 1, 0), "big")


def find_pieces(messages: Iterable[bytes], canaries: Collection[Canary]) -> Iterator[Canary]:
    """The canaries of which most has gone with several messages together, in pieces, and not as a whole with one."""
    together = b""
    for message in messages:
        together += _whole_view(message[: _MOST_PIECED - len(together)]) + b"\n"
        if len(together) >= _MOST_PIECED:
            together = together[:_MOST_PIECED]
            break
    for canary in canaries:
        if canary.token.encode() not in together and _is_in_pieces(canary.token, together):
            yield canary


def _is_in_pieces(token: str, data: bytes) -> bool:
    raw = token.encode()
    covered = bytearray(len(raw))
    for at in range(len(raw) - _PIECE + 1):
        if raw[at : at + _PIECE] in data:
            covered[at : at + _PIECE] = b"\1" * _PIECE
    return sum(covered) >= _IN_PIECES * len(raw)


WATCHED_RULES: Final = (
    ScanRule("watched-secret-sent", "behavior", "when it ran, it sent a secret of the user to a host",
         "What was sent has been given away, however it was packed; a leaked key must be replaced everywhere.",
         "do not install it; a service gets its own key, in a header, and nothing else", "high"),
    ScanRule("watched-secret-read-and-sent", "behavior", "when it ran, it read secrets and sent unreadable data to a host that nobody named",
         "Data that is encrypted before it is sent can be the secrets that were read just before.",
         "do not install it, unless its author shows what is sent", "high"),
    ScanRule("watched-remote-shell", "behavior", "when it ran, it connected a shell to a host, and ran the commands that came from there",
         "Whoever is at the other end can do everything that the user can.", "do not install it", "high"),
    ScanRule("watched-secret-read", "behavior", "when it ran, it read keys or sessions that its text does not mention",
         "Whoever reads them can act as the user elsewhere.", "remove the reading, or say in SKILL.md what is read and why", "medium"),
    ScanRule("watched-secret-shown", "behavior", "when it ran, it wrote a secret of the user into its output",
         "Output goes to a model and into logs; a key in it is compromised.", "write the name of a key, and never its value", "medium"),
    ScanRule("watched-download-run", "behavior", "when it ran, it downloaded a program and ran it",
         "The server decides what runs, and can decide otherwise tomorrow.",
         "ship the program with the skill, or check its hash before it is run", "high"),
    ScanRule("watched-persistence", "behavior", "when it ran, it changed what starts later by itself",
         "It continues after the conversation has ended, unobserved.", "leave this to the user, and say what to add where", "medium"),
    ScanRule("watched-agent-changed", "behavior", "when it ran, it changed instructions, settings or memory of an agent, or a skill",
         "These steer every later conversation.", "answer with what should be changed, and let the user decide", "medium"),
    ScanRule("watched-user-files", "behavior", "when it ran, it overwrote or deleted files of the user",
         "Nobody asked it to, and what was in them is lost.", "write to new files in the folder that the user works in", "high"),
    ScanRule("watched-hidden-host", "behavior", "when it ran, it asked for a host that is named in none of its files",
         "An address is put together or decoded to keep it from being found.", "write the address out, and name the host in SKILL.md", "medium"),
    ScanRule("watched-unknown-host", "behavior", "when it ran, it asked for a host that its text does not name",
         "Users who install the skill do not know whom it speaks with.", "name the host in SKILL.md and in `security: network_allowlist`", "low"),
    ScanRule("watched-sandbox-attempt", "behavior", "when it ran, it reached for the machine around it",
         "A skill needs no other processes, containers or mounts; what looks for them wants to get out.", "remove it", "medium"),
    ScanRule("watched-stays-running", "behavior", "when it had ended, processes of it still ran",
         "They continue unobserved, and do what they like later.", "end what was started, or run it in the foreground", "low"),
    ScanRule("watched-writes-outside", "behavior", "when it ran, it wrote into the user's home",
         "Files outside of the folder that is worked in are not expected, and stay.", "write to the working folder or a temporary one", "low"),
)  # fmt: skip
_RULES: Final = {rule.id: rule for rule in WATCHED_RULES}

_AUTHORIZATION: Final = re.compile(
    r"^(?:authorization|x-api-key|api-key|x-goog-api-key|private-token|x-[a-z-]{1,30}(?:token|key)): ", re.IGNORECASE
)
_REACHING: Final = ("nsenter", "unshare", "chroot", "mount", "insmod", "modprobe")
_CONTAINERS: Final = ("docker", "podman")
_PRIVILEGED: Final = ("--privileged", "/:/host", "--pid=host", "--net=host", "--network=host")
_STARTING: Final = ("systemctl", "launchctl", "schtasks", "at")
_COMMON_HOSTS: Final = (
    "pypi.org", "pythonhosted.org", "npmjs.org", "npmjs.com", "yarnpkg.com", "crates.io", "github.com", "githubusercontent.com",
    "gitlab.com", "huggingface.co", "debian.org", "ubuntu.com", "nodejs.org", "python.org", "golang.org", "example.com", "example.org",
)  # fmt: skip
_OPAQUE_BYTES: Final = 48


@dataclass(frozen=True, slots=True)
class Observation:
    """All that was seen of one command: what it asked of the world, what it changed there, what it wrote and left."""

    by: str
    line: int
    round: str
    text: str
    """The command as the text has it; empty for a script."""
    requests: tuple[RecordedRequest, ...]
    calls: Sequence[Sequence[str]]
    read: frozenset[str]
    changes: Sequence[tuple[str, str]]
    output: str
    left: tuple[str, ...]
    tampered: tuple[str, ...] = ()
    """In which ways it kept from being seen what it did."""


@dataclass(frozen=True, slots=True)
class SkillTexts:
    """What a skill says, in lower case: `instructions` is what people and models read of it, `prose` that without blocks of code.

    `everything` has its scripts, too; `copy` is the folder of its copy in the watched world.
    """

    instructions: str
    prose: str
    everything: str
    copy: str

    def names(self, host: str) -> bool:
        """Whether its text names a host, or the domain that it belongs to."""
        return host in self.instructions or _domain(host) in self.instructions

    def hides(self, host: str) -> bool:
        """Whether a host is named in none of its files."""
        return host not in self.everything and _domain(host) not in self.everything


def finding_of(effect: Effect) -> Finding:
    """An effect as a finding, at the place of what did it."""
    rule = _RULES[effect.rule]
    message = evidence_of(f"{rule.title}: {effect.target}" if effect.target else rule.title)
    evidence = evidence_of(effect.evidence)
    return Finding(effect.rule, effect.severity, message, rule.why, effect.by, effect.line, 1, evidence, rule.fix)


def effects_of(seen: Observation, canaries: Sequence[Canary], texts: SkillTexts, contents: dict[str, str]) -> Iterator[Effect]:
    """The effects of one command; `contents` are the beginnings of files that were changed, by path."""

    def effect(rule: str, target: str, evidence: str, relief: int = 0) -> Effect:
        return Effect(rule, lower_severity(_RULES[rule].severity, relief), seen.by, seen.line, seen.round, target, evidence)

    yield from (effect(*one) for one in _of_secrets(seen, canaries, texts))
    yield from (effect(*one) for one in _of_hosts(seen, texts))
    yield from (effect(*one) for one in _of_calls(seen))
    yield from (effect(*one) for one in _of_changes(seen, texts, contents))
    for why in seen.tampered:
        yield effect("watched-sandbox-attempt", "what records it", why)
    for line in seen.left:
        yield effect("watched-stays-running", line.partition(" ")[0], line)


_Judged = tuple[str, str, str, int]


def _of_secrets(seen: Observation, canaries: Sequence[Canary], texts: SkillTexts) -> Iterator[_Judged]:
    sent: dict[str, list[tuple[Canary, str, RecordedRequest]]] = {}
    for canary, host, how, request in _sent(seen.requests, canaries, texts):
        sent.setdefault(host, []).append((canary, how, request))
    for host, given in sent.items():
        names = ", ".join(canary.name for canary, *_ in given[:3]) + (f" and {len(given) - 3} more" if len(given) > 3 else "")
        yield "watched-secret-sent", f"{names} to {host}", f"{_first_line(given[0][2])} ({given[0][1]})", 0
    read = [one for one in canaries if one.file in seen.read and not one.quiet]
    for canary in read:
        mentioned = any(word in texts.prose for word in canary.mentioned)
        yield "watched-secret-read", canary.name, f"read {canary.name}", int(mentioned)
    for request in seen.requests if read and not sent else ():
        if not _is_ordinary(request.host, texts) and _is_opaque(request.body):
            yield "watched-secret-read-and-sent", request.host, f"{len(request.body)} bytes that are no text", 0
    for canary in canaries:
        if canary.token in seen.output:
            yield "watched-secret-shown", canary.name, f"{canary.token[:8]}…", int(not canary.file)


def _of_hosts(seen: Observation, texts: SkillTexts) -> Iterator[_Judged]:
    asked = {request.host: _first_line(request) for request in seen.requests if request.host}
    for request in seen.requests:
        if request.scheme == "shell":
            yield "watched-remote-shell", f"{request.host}:{request.port}", "a command that was sent to it was carried out", 0
    for host, evidence in asked.items():
        if _is_ordinary(host, texts):
            continue
        hidden = texts.hides(host)
        yield ("watched-hidden-host" if hidden else "watched-unknown-host"), host, f"{host}: {evidence}", 0


def _of_calls(seen: Observation) -> Iterator[_Judged]:
    hosts = {request.host for request in seen.requests if request.scheme in ("http", "https")}
    for name, *words in seen.calls:
        line = " ".join((name, *words))
        if name in ("ran-download", "{skillyard:canned}"):
            is_documented = bool(seen.text) and all(host in seen.text.lower() for host in hosts)
            relief = 1 + downloads_from_owner(seen.text) if is_documented else 0
            yield (
                "watched-download-run",
                ", ".join(sorted(hosts)[:3]),
                "ran what was answered to its request",
                relief,
            )
        elif name == "cron-lines" and words and words[0].strip():
            yield "watched-persistence", "a scheduled job", words[0], 0
        elif name in _STARTING and any(word in ("enable", "load", "bootstrap", "/create", "start", "now") for word in words):
            yield "watched-persistence", "a program that starts by itself", line, 0
        elif name == "reached":
            yield "watched-sandbox-attempt", words[0] if words else "", line, 0
        elif name in _REACHING or (name in _CONTAINERS and any(word in _PRIVILEGED for word in words)):
            yield "watched-sandbox-attempt", name, line, 0
        elif name == "security" and any(word.startswith(("find-", "dump-")) for word in words):
            yield "watched-secret-read", "the keychain", line, 0


def _of_changes(seen: Observation, texts: SkillTexts, contents: dict[str, str]) -> Iterator[_Judged]:
    outside: list[str] = []
    for path, how in seen.changes:
        kind, words = _kind_of_path(path, texts.copy)
        shown = f"{how} {_shown(path)}"
        lines = [line for line in contents.get(path, "").splitlines() if line.strip()]
        evidence = f"{shown}: {lines[-1]}" if lines else shown
        if kind == "persistent":
            yield "watched-persistence", words, evidence, 0
        elif kind == "agent" and (how != "made" or not path.startswith(f"{texts.copy}/")):
            yield "watched-agent-changed", words, evidence, int(how == "made" and "neighbour" not in path)
        elif kind == "own" and how != "made":
            yield "watched-user-files", _shown(path), shown, 0
        elif kind in ("outside", "own"):
            outside.append(_shown(path))
    if outside:
        yield "watched-writes-outside", outside[0], f"{len(outside)} files: {', '.join(outside[:3])}", 0


_PERSISTENT: Final = (
    (re.compile(r"home/\.ssh/(?:authorized_keys|rc)$"), "the keys and commands of a login"),
    (
        re.compile(r"home/\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin|config/fish/)"),
        "a file that every shell reads",
    ),
    (re.compile(r"home/\.config/(?:autostart|systemd)/|home/Library/Launch(?:Agents|Daemons)/"), "a program that starts by itself"),
    (re.compile(r"project/\.git/(?:hooks/|config$)|home/\.(?:gitconfig$|config/git/)"), "hooks or settings of git"),
    (re.compile(r"home/\.(?:local/lib/python[^/]+/site-packages/(?:[^/]+\.pth|sitecustomize|usercustomize)|npmrc$|pip/|config/pip/)"), "what every program of a language loads"),
)  # fmt: skip
_AGENTS: Final = re.compile(
    r"home/\.(?:claude|codex|cursor|gemini|openclaw|clawdbot|moltbot|copilot|windsurf|codeium|continue|opencode|agents|factory|kiro|"
    r"roo|qwen|goose|config/(?:opencode|goose|github-copilot))(?:/|\.json$)|"
    r"project/(?:\.(?:claude|cursor|codex|gemini|github|windsurf|agents)/|CLAUDE\.md|AGENTS\.md|GEMINI\.md|\.cursorrules|\.mcp\.json)|"
    r"skills/neighbour/"
)
_OWN_FILES: Final = re.compile(r"home/(?:Documents|Pictures)/")
_TOOL_FILES: Final = re.compile(
    r"home/\.(?:cache|npm|local|node_repl_history|python_history|matplotlib|nv|java|m2|gradle|cargo|rustup|wget-hsts|lesshst|viminfo|sqlite_history)(?:/|$)"
)


def _kind_of_path(path: str, skill: str) -> tuple[str, str]:
    """What a path of the world is to a user, and in words: `persistent`, `agent`, `own`, `outside`, `ours`, or empty for a place to work in.

    `skill` is the folder of the skill's copy.
    """
    if path.startswith(".world/"):
        return "ours", "what records it"
    for expression, words in _PERSISTENT:
        if expression.match(path):
            return "persistent", words
    if _AGENTS.match(path):
        return "agent", "another skill" if "neighbour" in path else "the settings, memory or instructions of an agent"
    if _OWN_FILES.match(path):
        return "own", "a document of the user"
    if path.startswith("home/"):
        return ("", "") if _TOOL_FILES.match(path) else ("outside", "a file in the user's home")
    if path.startswith(f"{skill}/") and path.lower().endswith(("/skill.md", "/claude.md", "/agents.md")):
        return "agent", "its own instructions"
    if path.startswith("skills/") and not path.startswith(f"{skill}/"):
        return "agent", "another skill"
    return "", ""


def _shown(path: str) -> str:
    return f"~/{path.removeprefix('home/')}" if path.startswith("home/") else path


def _first_line(request: RecordedRequest) -> str:
    return request.head.partition("\n")[0][:80]


def _domain(host: str) -> str:
    """The last two labels of a name; an address is its own."""
    labels = host.split(".")
    return host if labels[-1].isdigit() or ":" in host or len(labels) < 3 else ".".join(labels[-2:])


def _is_ordinary(host: str, texts: SkillTexts) -> bool:
    common = any(host == one or host.endswith(f".{one}") for one in _COMMON_HOSTS)
    return (
        common
        or texts.names(host)
        or host in ("localhost", "sandbox")
        or host.endswith((".local", ".test", ".invalid", ".localhost"))
    )


def _is_opaque(body: bytes) -> bool:
    """Whether a body is neither text nor a format that says what it is."""
    return len(body) >= _OPAQUE_BYTES and sum(byte < 9 or byte > 126 for byte in body[:2048]) > len(body[:2048]) // 4


def _sent(
    requests: Iterable[RecordedRequest], canaries: Sequence[Canary], texts: SkillTexts
) -> Iterator[tuple[Canary, str, str, RecordedRequest]]:
    """The secrets that were sent: to which host, in which form, and in which request."""
    reported: set[tuple[str, str]] = set()
    kept = [request for request in requests if request.host]
    for request in kept:
        for canary, how in find_canaries(request.sent, canaries):
            if (canary.name, request.host) not in reported and not _is_use(canary, request, texts):
                reported.add((canary.name, request.host))
                yield canary, request.host, how, request
    by_host: dict[str, list[RecordedRequest]] = {}
    for request in kept:
        by_host.setdefault(_domain(request.host), []).append(request)
    for domain, group in by_host.items():
        known = {name for name, host in reported if _domain(host) == domain}
        missing = [canary for canary in canaries if canary.name not in known]
        for canary in find_pieces([request.sent for request in group], missing):
            yield canary, group[0].host, "in pieces", group[0]


def _is_use(canary: Canary, request: RecordedRequest, texts: SkillTexts) -> bool:
    """Whether a service gets the key that is its own, or a service that the text names gets a key that the text names."""
    if canary.file:
        return False
    if any(request.host == one or request.host.endswith(f".{one}") for one in canary.services):
        return True
    if canary.name.lower() not in texts.instructions or not texts.names(request.host):
        return False
    others = "\n".join(line for line in request.head.splitlines() if not _AUTHORIZATION.match(line))
    return not list(find_canaries(others.encode("utf-8", "replace") + b"\n" + request.body, [canary]))
