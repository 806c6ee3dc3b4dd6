"""Watch what a skill does: its scripts and the commands that its text tells to run, in a sandbox, in a world made for it.

`watch_skill(folder)` runs each in several rounds, because malware waits: a first time, a second time with a file, as in continuous
integration and in another language, a month later, and when it is asked for help. Nothing runs outside of bubblewrap, nothing
reaches a network, and no secret in there is one. What happened is judged by `watch_effects`; the result is kept by the skill's
digest, so that the same bytes need not be watched again.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import marshal
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard._version import __version__
from skillyard.errors import SandboxUnavailable
from skillyard.files import delete_tree, read_private_cache, write_private_cache
from skillyard.packages import tree_digest
from skillyard.scanner.finding import SEVERITIES, Effect, WatchedCommand, WatchReport
from skillyard.scanner.source_texts import evidence_of, read_files
from skillyard.scanner.watch_effects import Observation, effects_of
from skillyard.scanner.watch_plan import RunnableCommand, find_commands, secret_variables, texts_of
from skillyard.times import utc_now

if TYPE_CHECKING:
    from skillyard.sandbox import SandboxBackend
    from skillyard.scanner.finding import Skipped
    from skillyard.scanner.watch_network import RecordedRequest, RecordingAuthority, RecordingNetwork
    from skillyard.scanner.watch_world import CallRecord, FileReadWatch, WatchedWorld, WorldSandbox


SECONDS: Final = 10.0
"""How long a skill is watched when nothing else is said."""

_KIND: Final = b"SkW1"

_LARGEST: Final = 1024 * 1024

_COMMAND_SECONDS: Final = 2.5

_AGAIN_SECONDS: Final = 1.5
"""How long a command may take again that was ended before, where time passes faster."""

_LEAST_SECONDS: Final = 0.3

_ENDING_SECONDS: Final = 1.2
"""What taking the sandbox down is allowed, of the whole."""

_MOST_WORLDS: Final = 16
"""How many worlds a lane may have: a new one is made when a command has spoiled one."""

_MOST_SPOILED: Final = 2
"""How many worlds one command may spoil; it is not run again then."""

_USUAL_SECONDS: Final = 0.05
"""What a command is thought to take until some have been run."""

_ANSWER_SECONDS: Final = 2.5
"""How long the first program may take to say how a command ended, after its deadline."""

_MOST_EFFECTS: Final = 200

_MOST_HOSTS: Final = 50

_CLOCKS: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1",
)  # fmt: skip

INSIDE: Final = "/workspace"
"""Where the sandbox sees the world."""


_NAME: Final = re.compile(r"[\w.=+/:-]{1,300}")

_BASH_CONNECTION: Final = re.compile(r"/dev/(?:tcp|udp)/([A-Za-z0-9.:-]{1,253})/(\d{1,5}): ")


@dataclass(frozen=True, slots=True)
class WatchRound:
    """The conditions of one round: variables that are set, arguments that scripts are given, days that the clock is ahead.

    With `hurry` time passes so many times faster, and only what was ended in the rounds before is run, because it waits.
    """

    name: str
    variables: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    days: int = 0
    lane: int = 0
    hurry: int = 1


ROUNDS: Final = (
    WatchRound("first", {}),
    WatchRound("again, with a file", {}, ("/workspace/project/sample.txt",)),
    WatchRound("in continuous integration", {"CI": "1", "GITHUB_ACTIONS": "true", "LANG": "zh_CN.UTF-8"}, lane=1),
    WatchRound("a month later", {"LANG": "de_DE.UTF-8"}, days=40),
    WatchRound("asked for help", {}, ("--help",), lane=1),
    WatchRound("when time passes faster", {}, days=40, hurry=1200),
)
"""In this order, until the time is over; commands of the text are given no arguments. Rounds of two lanes run at the same time, in two
worlds: what waits for a second time, or a month, finds in its world what it left there the first time."""


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
        self.backend = backend
        self._source = folder
        skipped: list[Skipped] = []
        self._files = {file.name: file for file in read_files(folder, skipped)}
        self._effects: dict[tuple[str, str, str], Effect] = {}
        self._hosts: dict[str, None] = {}
        self._missed: list[str] = []
        self.ended: dict[RunnableCommand, WatchedCommand] = {}
        name = re.sub(r"[^a-z0-9-]", "-", folder.resolve().name.lower())[:60].strip("-") or "skill"
        self._name = name if name != "neighbour" else "skill"
        self._texts = texts_of(self._files, self._name)
        self._variables = secret_variables(self._files)

    async def report(self) -> WatchReport:
        """Run everything in worlds made for it, and take them down again."""
        from skillyard.scanner.watch_network import RecordingAuthority

        started = time.monotonic()
        commands = find_commands(self._files, self._name, self.miss)
        self.ended = {one: WatchedCommand(one.by, one.line) for one in commands}
        done: list[WatchRound] = []
        if commands:
            until = started + self._seconds - _ENDING_SECONDS
            rounds = [
                one
                for one in ROUNDS
                if not one.days or _clock() or self._miss(f"the round «{one.name}»: libfaketime is not installed")
            ]
            authority = RecordingAuthority()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        _Lane(self, commands, [one for one in rounds if one.lane == lane], authority, until).run()
                    )
                    for lane in sorted({one.lane for one in rounds})
                ]
            done = [one for one in rounds if any(one in task.result() for task in tasks)]
        complete = not commands or (len(done) == len(ROUNDS) and not self._missed)
        return WatchReport(
            self._digest,
            utc_now().isoformat(timespec="seconds"),
            round(time.monotonic() - started, 2),
            complete,
            tuple(one.name for one in done),
            tuple(self.ended.values()),
            tuple(sorted(self._effects.values(), key=lambda one: SEVERITIES.index(one.severity))[:_MOST_EFFECTS]),
            tuple(self._hosts)[:_MOST_HOSTS],
            tuple(self._missed),
        )

    def _miss(self, what: str) -> bool:
        """Note that something was not watched; the result is false."""
        if what not in self._missed:
            self._missed.append(what)
        return False

    def miss(self, what: str) -> None:
        """Note that something was not watched."""
        self._miss(what)

    def make_world(self, place: Path, authority: bytes) -> WatchedWorld:
        """A world with a copy of the skill, in an empty folder."""
        from skillyard.scanner.watch_world import WatchedWorld

        examples = {
            f"examples/{Path(one.argv[-1]).name}": one.text.encode("utf-8", "replace")
            for one in self.ended
            if one.argv[0] == "--example"
        }
        files = {"authority.pem": authority, **_own_files(), **examples}
        world = WatchedWorld.make(place, self._source, self._name, files=files, variables=self._variables)
        world.remember()
        return world

    def judge(self, command: RunnableCommand, seen: Observation, world: WatchedWorld, answer: Mapping[str, Any]) -> None:
        """Add what one run of a command did to the report."""
        contents = {path: world.text_of(path) for path, how in seen.changes[:200] if how != "gone"}
        for host in (request.host for request in seen.requests if request.host):
            self._hosts.setdefault(evidence_of(host))
        order = [one.name for one in ROUNDS]
        for effect in effects_of(seen, world.canaries, self._texts, contents):
            effect = replace(effect, target=evidence_of(effect.target), evidence=evidence_of(effect.evidence))
            key = (effect.rule, effect.by, effect.target)
            earlier = self._effects.get(key)
            if earlier is None or order.index(effect.round) < order.index(earlier.round):
                self._effects[key] = effect
        before = self.ended[command]
        end = "ended by us" if answer.get("late") else f"exit code {answer.get('exit')}"
        if before.end == "ended by us":
            end = before.end  # in another lane
        spent = answer.get("ms", 0) / 1000
        self.ended[command] = replace(before, runs=before.runs + 1, seconds=round(before.seconds + spent, 2), end=end)


def _looked_up(calls: Sequence[Sequence[str]], output: str) -> Iterator[RecordedRequest]:
    """Names that were looked up, and connections that a shell says it could not make: what is asked for is data, too."""
    from skillyard.scanner.watch_network import RecordedRequest

    for call in calls:
        if call[0] == "lookup" and len(call) > 1 and _NAME.fullmatch(call[1].strip()):
            yield RecordedRequest(call[1][:300].strip().lower(), 53, "dns", f"looked up {call[1][:1000]}", b"")
    for host, port in dict.fromkeys(_BASH_CONNECTION.findall(output)):
        yield RecordedRequest(host.lower(), int(port), "tcp", f"tried to connect to {host}:{port}", b"")


@cache
def _own_files() -> dict[str, bytes]:
    """The files of ours that every world has, Python compiled too: the sandbox compiles nothing for a second time."""
    own = Path(__file__)
    agent, played = own.with_name("watch_agent.py").read_bytes(), own.with_name("watch_requests.py").read_bytes()
    files = {"python/sitecustomize.py": agent, "packages/requests.py": played, "packages/httpx.py": played}
    for name, source in list(files.items()):
        path = importlib.util.cache_from_source(name)
        code = marshal.dumps(compile(source, f"{INSIDE}/.world/{name}", "exec"))
        files[path] = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + importlib.util.source_hash(source) + code
    return {**files, "hooks.cjs": own.with_name("watch_hooks.cjs").read_bytes()}


def _clock() -> str:
    return next((one for one in _CLOCKS if Path(one).is_file()), "")


def _variables(world: WatchedWorld, conditions: WatchRound) -> dict[str, str]:
    from skillyard.sandbox.policy import proxy_environment
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
    here, clock = f"{INSIDE}/{world.skill}", _clock() if conditions.days else ""
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
        **(
            {
                "LD_PRELOAD": clock,
                "FAKETIME": f"+{conditions.days}d{f' x{conditions.hurry}' if conditions.hurry > 1 else ''}",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            if clock
            else {}
        ),
    }


class _Lane:
    """Some of the rounds, one after the other, in a world of their own; in a new one after a command has spoiled it."""

    def __init__(
        self,
        watching: _Watching,
        commands: Sequence[RunnableCommand],
        rounds: Sequence[WatchRound],
        authority: RecordingAuthority,
        until: float,
    ) -> None:
        self._watching = watching
        self._rounds = rounds
        self._authority = authority
        self._until = until
        self._spent: list[float] = []
        self._spoilers: list[RunnableCommand] = []
        # a command of the text takes no arguments, so nothing would be different
        self._turns = [(one, by) for by in rounds for one in commands if not (one.text and by.arguments)]

    async def run(self) -> list[WatchRound]:
        """The rounds in which everything was run."""
        for _ in range(_MOST_WORLDS):
            if self._turns and not self._is_over():
                await self._run_in_new_world()
        if self._turns:
            why = "the time was over" if self._is_over() else "its world was spoiled again and again"
            self._watching.miss(f"the rest of the round «{self._turns[0][1].name}» and what comes after it: {why}")
        return [one for one in self._rounds if all(by is not one for _, by in self._turns)]

    def _is_over(self) -> bool:
        return self._until - time.monotonic() < _LEAST_SECONDS

    async def _run_in_new_world(self) -> None:
        """Do what is left, until a command has spoiled the world, the sandbox is gone or the time is over."""
        from skillyard.scanner.watch_network import RecordingNetwork
        from skillyard.scanner.watch_world import CallRecord, FileReadWatch, WorldSandbox

        place = Path(tempfile.mkdtemp(prefix="skillyard-watch-")).resolve()
        try:
            world = await asyncio.to_thread(self._watching.make_world, place, self._authority.certificate)
            network = RecordingNetwork(self._authority)
            with FileReadWatch({one.file: place / one.file for one in world.canaries if one.file}) as reading:
                if not reading.works:
                    self._watching.miss("which secrets are read: this machine has no more inotify instances")
                async with WorldSandbox(self._watching.backend, world.folder, network) as sandbox:
                    calls = CallRecord(place, reading)
                    asyncio.get_running_loop().add_reader(calls, calls.drain)
                    try:
                        await self._run_turns(_ObservedWorld(world, network, reading, calls, sandbox))
                    finally:
                        asyncio.get_running_loop().remove_reader(calls)
                        calls.close()
        finally:
            await asyncio.to_thread(delete_tree, place)

    async def _run_turns(self, scene: _ObservedWorld) -> None:
        conditions: WatchRound | None = None
        while self._turns and not self._is_over():
            command, by = self._turns[0]
            if (self._watching.ended[command].end == "ended by us") != (by.hurry > 1):
                self._turns.pop(0)  # it would take all of the time again, but where time passes faster
                continue
            if by is not conditions:
                conditions = by
                if await scene.sandbox.ask({"become": _variables(scene.world, by)}, _ANSWER_SECONDS) is None:
                    return
            await scene.restore()
            self._turns.pop(0)
            if await self._run_one(command, by, scene):
                self._spoilers.append(command)
                if self._spoilers.count(command) == _MOST_SPOILED:
                    self._turns = [one for one in self._turns if one[0] is not command]
                return

    async def _run_one(self, command: RunnableCommand, conditions: WatchRound, scene: _ObservedWorld) -> bool:
        """Run one command and judge it; whether it has spoiled the world."""
        started = time.monotonic()
        usual = sum(self._spent) / len(self._spent) if self._spent else _USUAL_SECONDS
        left = self._until - started
        most = _AGAIN_SECONDS if self._watching.ended[command].end == "ended by us" else _COMMAND_SECONDS
        allowed = max(_LEAST_SECONDS, min(most, left - usual * len(self._turns)))  # the others are to have theirs
        request = {
            "argv": [*command.argv, *(() if command.text else conditions.arguments)],
            "cwd": f"{INSIDE}/{scene.world.skill}" if command.text else f"{INSIDE}/project",
            "seconds": min(allowed, left),
            "stdin": "y\n" * 8,
        }
        answer = await scene.sandbox.ask(request, allowed + _ANSWER_SECONDS)
        if answer is None:
            self._watching.miss(f"{command.by} after this: it used more than it may, or ended its sandbox")
        seen = scene.observe(command, conditions, answer)
        self._watching.judge(command, seen, scene.world, answer or {"exit": "none"})
        if not (answer or {}).get("late"):
            self._spent.append(time.monotonic() - started)
        return bool(seen.tampered) or scene.world.torn


@dataclass(frozen=True, slots=True)
class _ObservedWorld:
    """One world with everything that looks at it."""

    world: WatchedWorld
    network: RecordingNetwork
    reading: FileReadWatch
    calls: CallRecord
    sandbox: WorldSandbox

    async def restore(self) -> None:
        """Put back the secrets and the user's files that are not as they were."""
        if originals := self.world.originals():
            files = {f"{INSIDE}/{path}": text for path, text in originals.items()}
            await self.sandbox.ask({"write": files}, _ANSWER_SECONDS)
            self.world.forgive(originals)
            self.reading.renew()
            self.reading.taken()

    def observe(self, command: RunnableCommand, conditions: WatchRound, answer: Mapping[str, Any] | None) -> Observation:
        """What was seen since the last command."""
        read = frozenset(self.reading.taken())  # before anything of it is read here
        (calls, whole), changes = self.calls.taken(), self.world.changes()
        requests, every = self.network.taken()
        output = str((answer or {}).get("output", ""))[:_LARGEST]
        tampered = {
            "it ended the program that starts it, or used more than it may": answer is None,
            "it wrote over the record of what it asked for, or filled it": not whole,
            "it sent more than is recorded": not every,
            "it read more than is reported": "*" in self.reading.changed,
            "it made more files, or larger ones, than it may": self.world.crowded,
            "it closed folders to what runs after it": self.world.locked,
            "it changed the programs that record it": any(
                path.startswith(".world/") and how != "made" for path, how in changes
            ),
        }
        return Observation(
            command.by,
            command.line,
            conditions.name,
            command.text,
            (*requests, *_looked_up(calls, output)),
            calls,
            read,
            changes,
            output,
            tuple(str(one) for one in (answer or {}).get("left", ())),
            tuple(why for why, is_so in tampered.items() if is_so),
        )
