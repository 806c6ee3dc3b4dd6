"""Watch what a skill does: its scripts and the commands that its text tells to run, in a sandbox, in a world made for it.

`watch_skill(folder)` runs each in several rounds, because malware waits: a first time, a second time with a file, as in continuous
integration and in another language, a month later, and when it is asked for help. Nothing runs outside of bubblewrap, nothing
reaches a network, and no secret in there is one. What happened is judged by `watch_effects`; the result is kept by the skill's
digest, so that the same bytes need not be watched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from skillyard._version import __version__
from skillyard.document.front_matter import CodeBlock, read_body
from skillyard.errors import SandboxUnavailable
from skillyard.files import delete_tree, read_private_cache, write_private_cache
from skillyard.packages import tree_digest
from skillyard.scanner.finding import SEVERITIES, Effect, WatchedCommand, WatchReport
from skillyard.scanner.sources import FENCES, ScannedFile, decoded, evidence_of, language_of, read_files
from skillyard.scanner.watch_effects import Observation, SkillTexts, effects_of
from skillyard.times import utc_now

if TYPE_CHECKING:
    from skillyard.sandbox import SandboxBackend, SandboxSession
    from skillyard.scanner.finding import Skipped
    from skillyard.scanner.watch_network import RecordedRequest, RecordingNetwork
    from skillyard.scanner.watch_world import ReadingWatch, WatchedWorld

SECONDS: Final = 10.0
"""How long a skill is watched when nothing else is said."""

_KIND: Final = b"SkW1"
_LARGEST: Final = 1024 * 1024
_COMMAND_SECONDS: Final = 2.5
_LEAST_SECONDS: Final = 0.3
_ENDING_SECONDS: Final = 1.2
"""What taking the sandbox down is allowed, of the whole."""
_MOST_COMMANDS: Final = 24
_MOST_EFFECTS: Final = 200
_MOST_HOSTS: Final = 50
_MOST_WRITTEN: Final = 256 * 1024 * 1024
"""How many bytes the world may have, with the skill's copy in it."""
_LOOK_SECONDS: Final = 0.25
_MOST_ANSWER: Final = 1024 * 1024
_CLOCKS: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1",
)  # fmt: skip
_AGENT: Final = "/workspace/.world/agent.py"
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,20}){1,5}\b")
_MOST_VARIABLES: Final = 30
_MOST_TEXT: Final = 2 * 1024 * 1024
_NAME: Final = re.compile(r"[\w.=+/:-]{1,300}")
_BASH_CONNECTION: Final = re.compile(r"/dev/(?:tcp|udp)/([A-Za-z0-9.:-]{1,253})/(\d{1,5}): ")
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": ("python3", _AGENT, "--script"),
    ".sh": ("bash",), ".bash": ("bash",), ".command": ("bash",), ".zsh": ("bash",),
    ".js": ("node",), ".cjs": ("node",), ".mjs": ("node",), ".ts": ("node", "--no-warnings", "--experimental-strip-types"),
    ".pl": ("perl",), ".rb": ("ruby",),
}  # fmt: skip
_RUNNABLE: Final = re.compile(
    r"(?:[$>] )?(?:sudo |env )?(?:curl|wget|ba?sh|zsh|python3?|node|npx|npm|pip3?|uvx?|git|chmod|echo|printf|cd|mkdir|cp|mv|rm|cat|export|tar|"
    r"unzip|openssl|base64|crontab|systemctl|source|eval|\./|~/|brew|apt(?:-get)?)\b"
)
_INLINE: Final = re.compile(r"(?<!`)`((?:curl|wget|bash|sh|python3?|node|npx|echo|openssl|sudo|eval)\s[^`\n]{4,600})`(?!`)")
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][A-Za-z0-9 _./|-]{0,40}>")
_OWN_FOLDER: Final = re.compile(
    r"\{baseDir\}|\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|CLAUDE_PLUGIN_ROOT|SKILL_PATH|SKILL_ROOT)\}?|/path/to/skill"
)
_PROMPT: Final = re.compile(r"^\$ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WatchRound:
    """The conditions of one round: variables that are set, arguments that scripts are given, days that the clock is ahead."""

    name: str
    variables: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    days: int = 0


ROUNDS: Final = (
    WatchRound("first", {}),
    WatchRound("again, with a file", {}, ("/workspace/project/sample.txt",)),
    WatchRound("in continuous integration", {"CI": "1", "GITHUB_ACTIONS": "true", "LANG": "zh_CN.UTF-8"}),
    WatchRound("a month later", {"LANG": "de_DE.UTF-8"}, days=40),
    WatchRound("asked for help", {}, ("--help",)),
)
"""In this order, until the time is over; commands of the text are given no arguments."""


@dataclass(frozen=True, slots=True)
class _RunnableCommand:
    by: str
    line: int
    argv: tuple[str, ...]
    text: str = ""


def watch_skill(
    directory: str | os.PathLike[str], *, again: bool = False, seconds: float = SECONDS, keep: bool = True
) -> WatchReport:
    """Run what is in a skill, in a sandbox with canary secrets and a made-up network, and report what it does.

    It takes up to `seconds` and a little more; each command gets 2.5 of them at most. A report about the same bytes is taken from
    the cache of the user, unless `again`; with `keep` the new one is put there. Blocks; not to be called on an event loop.

    Raises:
        SandboxUnavailable: bubblewrap does not hold on this machine; nothing was run.
        OSError: the folder cannot be read, or a copy of it not be written.
    """
    folder = Path(directory)
    os.scandir(folder).close()
    digest = tree_digest(folder)
    cache = _cache_file(digest)
    if not again and (known := _kept(cache)) is not None:
        return known
    backend = _sandbox()
    report = asyncio.run(_Watching(folder, digest, seconds, backend).report())
    if keep:
        write_private_cache(cache, _KIND, (__version__, json.dumps(report.to_dict())))
    return report


def kept_report(digest: str) -> WatchReport | None:
    """What is kept of a skill with this digest, that `watch_skill` watched for this user; None when it did not."""
    return _kept(_cache_file(digest))


def _kept(file: str) -> WatchReport | None:
    content = read_private_cache(file, _KIND, largest=_LARGEST)
    if not isinstance(content, tuple) or content[:1] != (__version__,):
        return None
    form: dict[str, Any] = json.loads(content[1])
    form["effects"] = tuple(Effect(**one) for one in form["effects"])
    form["commands"] = tuple(WatchedCommand(**one) for one in form["commands"])
    form |= {name: tuple(form[name]) for name in ("rounds", "hosts", "missed")}
    return WatchReport(**form)


def _cache_file(digest: str) -> str:
    root = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(root) if root.startswith("/") else Path("~").expanduser() / ".cache"
    return f"{folder}/skillyard/watched/{digest.rpartition(':')[2]}"


def _sandbox() -> SandboxBackend:
    from skillyard.sandbox import Policy, choose_backend

    try:
        return choose_backend(Policy(), "bwrap")
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"a skill is watched only under bubblewrap, which does not hold here: {error.message}",
            hint=error.hint,
            **error.details,
        ) from None


class _Watching:
    """The state of one watch."""

    def __init__(self, folder: Path, digest: str, seconds: float, backend: SandboxBackend) -> None:
        self._digest = digest
        self._seconds = seconds
        self._backend = backend
        self._source = folder
        skipped: list[Skipped] = []
        self._files = {file.name: file for file in read_files(folder, skipped)}
        self._effects: dict[tuple[str, str, str], Effect] = {}
        self._hosts: dict[str, None] = {}
        self._missed: list[str] = []
        self._ended: dict[_RunnableCommand, WatchedCommand] = {}
        self._rounds: list[str] = []
        name = re.sub(r"[^a-z0-9-]", "-", folder.resolve().name.lower())[:60].strip("-") or "skill"
        self._name = name if name != "neighbour" else "skill"

    async def report(self) -> WatchReport:
        """Make the world, run everything in it, and take it down again."""
        from skillyard.scanner.watch_network import RecordingNetwork
        from skillyard.scanner.watch_world import ReadingWatch, WatchedWorld

        started = time.monotonic()
        commands = self._commands()
        if commands:
            network = RecordingNetwork()
            place = Path(tempfile.mkdtemp(prefix="skillyard-watch-")).resolve()
            try:
                own = {"authority.pem": network.authority, **_own_files()}
                own |= {
                    f"examples/{Path(one.argv[-1]).name}": one.text.encode("utf-8", "replace")
                    for one in commands
                    if "--example" in one.argv
                }
                asked = self._variables_asked_for()
                world = await asyncio.to_thread(WatchedWorld.make, place, self._source, self._name, files=own, variables=asked)
                world.remember()
                watched = {one.file: place / one.file for one in world.canaries if one.file}
                with ReadingWatch(watched) as reading:
                    if not reading.works:
                        self._missed.append("which secrets are read: this machine has no more inotify instances")
                    await self._run_all(commands, world, network, reading, started + self._seconds - _ENDING_SECONDS)
            finally:
                await asyncio.to_thread(delete_tree, place)
        complete = not commands or (len(self._rounds) == len(ROUNDS) and not self._missed)
        return WatchReport(
            self._digest,
            utc_now().isoformat(timespec="seconds"),
            round(time.monotonic() - started, 2),
            complete,
            tuple(self._rounds),
            tuple(self._ended.values()),
            tuple(sorted(self._effects.values(), key=lambda one: SEVERITIES.index(one.severity))[:_MOST_EFFECTS]),
            tuple(self._hosts)[:_MOST_HOSTS],
            tuple(self._missed),
        )

    async def _run_all(
        self,
        commands: Sequence[_RunnableCommand],
        world: WatchedWorld,
        network: RecordingNetwork,
        reading: ReadingWatch,
        until: float,
    ) -> None:
        async with _OpenSandbox(self._backend, world.folder, network) as sandbox:
            for conditions in ROUNDS:
                if conditions.days and not (clock := next((one for one in _CLOCKS if Path(one).is_file()), "")):
                    self._missed.append(f"the round «{conditions.name}»: libfaketime is not installed")
                    continue
                variables = _variables(world, conditions, clock if conditions.days else "")
                for command in commands:
                    rest = until - time.monotonic()
                    allowed = min(_COMMAND_SECONDS, rest)
                    if rest < _LEAST_SECONDS:
                        self._missed.append(f"the rest of the round «{conditions.name}» and all after it: the time was over")
                        return
                    if command.text and conditions.arguments:
                        continue  # it takes none, so nothing is different
                    if self._ended[command].end == "ended by us":
                        continue  # it would take all of the time again
                    request = {
                        "argv": [*command.argv, *(() if command.text else conditions.arguments)],
                        "cwd": f"/workspace/{world.skill}" if command.text else "/workspace/project",
                        "env": variables,
                        "seconds": allowed,
                        "stdin": "y\n" * 8,
                    }
                    if originals := world.originals():
                        await sandbox.ask({"write": {f"/workspace/{path}": text for path, text in originals.items()}}, 5)
                        world.forgive(originals)
                        reading.renew()
                        reading.taken()
                    answer = await sandbox.ask(request, allowed + 5)
                    if answer is None:
                        self._missed.append(
                            f"{command.by} and what comes after it: it used more than it may, or ended its sandbox"
                        )
                        return
                    self._judge(command, conditions, answer, world, network, reading)
                self._rounds.append(conditions.name)

    def _judge(
        self,
        command: _RunnableCommand,
        conditions: WatchRound,
        answer: Mapping[str, Any],
        world: WatchedWorld,
        network: RecordingNetwork,
        reading: ReadingWatch,
    ) -> None:
        read = frozenset(reading.taken())  # before anything of it is read here
        output, calls, changes = str(answer.get("output", ""))[:_LARGEST], world.calls(), world.changes()
        requests = (*network.taken(), *_looked_up(calls, output))
        seen = Observation(
            command.by, command.line, conditions.name, command.text, requests, calls, read, changes, output, tuple(str(one) for one in answer.get("left", ())),
        )  # fmt: skip
        contents = {path: world.text_of(path) for path, how in changes[:200] if how != "gone"}
        reading.taken()
        for host in (request.host for request in requests if request.host):
            self._hosts.setdefault(evidence_of(host))
        for effect in effects_of(seen, world.canaries, self._texts, contents):
            effect = replace(effect, target=evidence_of(effect.target), evidence=evidence_of(effect.evidence))
            self._effects.setdefault((effect.rule, effect.by, effect.target), effect)
        before = self._ended[command]
        late, code = bool(answer.get("late")), answer.get("exit")
        end = "ended by us" if late else f"exit code {code}"
        spent = answer.get("ms", 0) / 1000
        self._ended[command] = replace(before, runs=before.runs + 1, seconds=round(before.seconds + spent, 2), end=end)

    def _variables_asked_for(self) -> list[str]:
        """The names of variables with secrets that stand in the skill's files."""
        from skillyard.sandbox.environment import is_secret_name, name_problem

        text = "\n".join(decoded(file.data) or "" for file in self._files.values())
        names = dict.fromkeys(_VARIABLE.findall(text[:_MOST_TEXT]))
        return [name for name in names if is_secret_name(name) and name_problem(name) is None][:_MOST_VARIABLES]

    @cached_property
    def _texts(self) -> SkillTexts:
        whole = {name: (decoded(file.data) or "").lower() for name, file in self._files.items()}
        told = [text for name, text in whole.items() if name.lower().endswith((".md", ".txt", ".markdown"))]
        prose = "\n".join(_prose_and_blocks(text)[0] for text in told)
        return SkillTexts("\n".join(told), prose, "\n".join(whole.values()), f"skills/{self._name}")

    def _commands(self) -> list[_RunnableCommand]:
        """What is run: scripts, those that the text names first, then its commands."""
        text = decoded(self._files["SKILL.md"].data) or "" if "SKILL.md" in self._files else ""
        scripts = [one for name, file in self._files.items() if (one := self._script(name, file))]
        scripts.sort(key=lambda one: (Path(one.by).name not in text, one.by.count("/"), one.by))
        found = [*scripts[: _MOST_COMMANDS // 2], *_commands_of("SKILL.md", text)]
        for name in sorted(self._files):
            if name != "SKILL.md" and name.lower().endswith(".md") and "/" not in name:
                found += _commands_of(name, decoded(self._files[name].data) or "")
        found += scripts[_MOST_COMMANDS // 2 :]
        if len(found) > _MOST_COMMANDS:
            self._missed.append(
                f"{len(found) - _MOST_COMMANDS} more scripts and commands: {_MOST_COMMANDS} are run of one skill"
            )
        self._ended = {one: WatchedCommand(one.by, one.line) for one in found[:_MOST_COMMANDS]}
        return list(self._ended)

    def _script(self, name: str, file: ScannedFile) -> _RunnableCommand | None:
        path = f"/workspace/skills/{self._name}/{name}"
        ending = Path(name).suffix.lower()
        text = decoded(file.data)
        if ending in _ENDINGS:
            return _RunnableCommand(name, 1, (*_ENDINGS[ending], path))
        if text is not None and text.startswith("#!") and language_of(name, text) in ("python", "shell", "javascript"):
            return _RunnableCommand(
                name, 1, (*_ENDINGS[{"python": ".py", "shell": ".sh"}.get(language_of(name, text), ".js")], path)
            )
        if ending in (".ps1", ".bat", ".cmd", ".exe", ".dll", ".jar", ".php", ".go", ".rs"):
            self._missed.append(f"{evidence_of(name)}: nothing here runs it")
        return None


def _commands_of(name: str, text: str) -> Iterator[_RunnableCommand]:
    """The commands that a text tells to run: fenced blocks of a shell and of Python, and commands inside of lines."""
    prose, blocks = _prose_and_blocks(text)
    for block in blocks:
        language = FENCES.get(block.language)
        if language == "python":
            example = _filled(block.text)
            file = f"/workspace/.world/examples/{hashlib.sha256(example.encode('utf-8', 'replace')).hexdigest()[:16]}.py"
            yield _RunnableCommand(name, block.line, ("python3", _AGENT, "--example", file), example)
        elif language == "shell" or (not block.language and _RUNNABLE.match(block.text.lstrip())):
            yield _RunnableCommand(name, block.line, ("bash", "-c", _filled(_without_prompts(block.text))), block.text)
    for match in list(_INLINE.finditer(prose))[:_MOST_COMMANDS]:
        yield _RunnableCommand(name, prose.count("\n", 0, match.start()) + 1, ("bash", "-c", _filled(match[1])), match[1])


def _prose_and_blocks(text: str) -> tuple[str, Sequence[CodeBlock]]:
    """A text without its blocks of code, its lines where they were, and the blocks."""
    _, blocks = read_body(text)
    lines = text.splitlines(keepends=True)
    for block in blocks:
        within = slice(block.line - 1, block.line + block.text.count("\n") + 1)
        lines[within] = ["\n"] * len(lines[within])
    return "".join(lines), blocks


def _looked_up(calls: Sequence[Sequence[str]], output: str) -> Iterator[RecordedRequest]:
    """Names that were looked up, and connections that a shell says it could not make: what is asked for is data, too."""
    from skillyard.scanner.watch_network import RecordedRequest

    for call in calls:
        if call[0] == "lookup" and len(call) > 1 and _NAME.fullmatch(call[1].strip()):
            yield RecordedRequest(call[1][:300].strip().lower(), 53, "dns", f"looked up {call[1][:1000]}", b"")
    for host, port in dict.fromkeys(_BASH_CONNECTION.findall(output)):
        yield RecordedRequest(host.lower(), int(port), "tcp", f"tried to connect to {host}:{port}", b"")


def _without_prompts(text: str) -> str:
    """What is typed, of a text that shows answers too."""
    if not _PROMPT.search(text):
        return text
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))


def _filled(text: str) -> str:
    """Commands with a sample for what the reader is to fill in."""
    return _PLACEHOLDER.sub("/workspace/project/sample.txt", _OWN_FOLDER.sub(".", text))[:65_536].replace("\0", "")


def _own_files() -> dict[str, bytes]:
    own = Path(__file__)
    agent, hooks = own.with_name("watch_agent.py").read_bytes(), own.with_name("watch_hooks.cjs").read_bytes()
    played = dict.fromkeys(("packages/requests.py", "packages/httpx.py"), own.with_name("watch_requests.py").read_bytes())
    return {"agent.py": agent, "python/sitecustomize.py": agent, "hooks.cjs": hooks, **played}


def _variables(world: WatchedWorld, conditions: WatchRound, clock: str) -> dict[str, str]:
    from skillyard.sandbox.environment import proxy_environment
    from skillyard.sandbox.process_launch import PROXY_PORT

    authority = "/workspace/.world/authority.pem"
    trusting = (
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "GIT_SSL_CAINFO",
        "AWS_CA_BUNDLE",
    )
    here = f"/workspace/{world.skill}"
    return {
        "PATH": "/workspace/.world/bin:/opt/skillyard/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/workspace/home",
        "USER": "sam",
        "LOGNAME": "sam",
        "TMPDIR": "/tmp",  # noqa: S108 # the sandbox's own
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "PYTHONPATH": "/workspace/.world/python",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NODE_OPTIONS": "--require /workspace/.world/hooks.cjs",
        **dict.fromkeys(("CLAUDE_SKILL_DIR", "SKILL_DIR", "CLAUDE_PLUGIN_ROOT"), here),
        **dict.fromkeys(trusting, authority),
        **proxy_environment(PROXY_PORT),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
        **world.variables(),
        **conditions.variables,
        **({"LD_PRELOAD": clock, "FAKETIME": f"+{conditions.days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if clock else {}),
    }


class _OpenSandbox:
    """The sandbox of one watch, opened and closed; it does one thing at a time."""

    def __init__(self, backend: SandboxBackend, folder: Path, network: RecordingNetwork) -> None:
        self._backend = backend
        self._folder = folder
        self._network = network
        self._received = b""
        self._arrived = asyncio.Event()
        self._session: SandboxSession | None = None

    async def __aenter__(self) -> Self:
        from skillyard.sandbox import Policy, SessionRequest, open_session

        policy = Policy(memory_mb=768, pids=96, nofile=512, file_size_mb=64, tmp_mb=128, filesystem="read-write")
        program = {"agent.py": Path(__file__).with_name("watch_agent.py").read_bytes()}
        request = SessionRequest(str(self._folder), "agent.py", program, policy, proxy=self._network)
        self._session = await open_session(self._backend, request, self._receive)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def _receive(self, piece: bytes) -> None:
        if len(self._received) < 2 * _MOST_ANSWER:
            self._received += piece
        self._arrived.set()

    async def ask(self, request: Mapping[str, object], seconds: float) -> Mapping[str, Any] | None:
        """What the first program answers, `None` when it has gone, writes what is no answer, or too much was written."""
        from skillyard.sandbox import folder_bytes

        assert self._session is not None  # noqa: S101 # it is open
        self._received = b""
        if not self._session.send(json.dumps(request).encode() + b"\n"):
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while b"\n" not in self._received and self._session.alive:
                    self._arrived.clear()
                    ended = asyncio.ensure_future(self._session.ended.wait())
                    arrived = asyncio.ensure_future(self._arrived.wait())
                    await asyncio.wait({ended, arrived}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    ended.cancel()
                    arrived.cancel()
                    if folder_bytes(str(self._folder), _MOST_WRITTEN) > _MOST_WRITTEN:
                        self._session.stop()
                        return None
        line = self._received.partition(b"\n")[0]
        try:
            answer = json.loads(line) if len(line) < _MOST_ANSWER else None
        except ValueError:
            return None
        sound = isinstance(answer, dict) and isinstance(answer.get("ms", 0), int) and isinstance(answer.get("left", []), list)
        return answer if sound else None
