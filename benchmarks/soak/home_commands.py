"""Commands of every kind that use one home, and what each promises when it ends well."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.soak.parts import skillyard

__all__ = ["Commands", "HomeCommands", "Promised"]

_LONGEST_S: Final = 120
_TROUBLE: Final = ("database_unavailable", "database_damaged", "malformed", "Traceback", "internal_error")


@dataclass(slots=True)
class Promised:
    """What was acknowledged, by kind and name: `True` must be there, `False` must not; `strange` is what no fault explains."""

    records: dict[tuple[str, str], bool] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    strange: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, kind: str, name: str, *, there: bool = True) -> None:
        """Note that the record was acknowledged as there, or as taken away."""
        with self.lock:
            self.records[kind, name] = there

    def unsure(self, kind: str, name: str) -> None:
        """Note that nobody knows: who would have said so was killed."""
        with self.lock:
            self.records.pop((kind, name), None)

    def count(self, what: str) -> None:
        """Count one thing that was done."""
        with self.lock:
            self.done[what] += 1


@dataclass(frozen=True, slots=True)
class Commands:
    """Where commands are called, with which environment, and how: `start` and `pace` are those of `soak_home`."""

    folder: Path
    environment: Mapping[str, str]
    start: Callable[..., Any] = subprocess.Popen
    pace: float = 1.0


class HomeCommands:
    """One worker that calls the command line, one command after the other; some are killed with -9.

    `number` tells its names from those of other workers; `turns` counts what it has done.
    """

    def __init__(self, number: int, commands: Commands, promised: Promised, seed: int, kills: float) -> None:
        self._number, self._commands, self._promised = number, commands, promised
        self._folder = commands.folder
        self._chance = random.Random(f"{seed}-{number}")
        self._kills = kills
        self.turns = 0
        self._first = 5 * number  # the second worker begins in the middle, so that few turns of both are of every kind
        self._kinds: tuple[Callable[[], None], ...] = (
            self._look, self._run, self._look_at_records, self._install, self._switch, self._remember, self._keep_safe,
            self._schedule, self._agent, self._key,
        )  # fmt: skip

    def go_on(self, stop: threading.Event) -> None:
        """Call commands of every kind in turn until told to stop."""
        while not stop.is_set():
            self._kinds[(self.turns + self._first) % len(self._kinds)]()
            self.turns += 1

    def _look(self) -> None:
        self._call(self._chance.choice((["list"], ["search", "statistics"], ["prompt"], ["show", "quick"])))

    def _look_at_records(self) -> None:
        ways = (
            ["history"], ["runs"], ["versions"], ["approvals"], ["trail"], ["audit"], ["organisations"],
            ["chat", "--list"], ["memories"], ["memories", "search", "tea"], ["doctor"], ["db", "status"], ["db", "check"],
        )  # fmt: skip
        self._call(self._chance.choice(ways))
        self._call(["history"])

    def _run(self) -> None:
        answer = self._call(["run", "quick", "--input", json.dumps({"number": self.turns})])
        if answer:
            self._promised.keep("run", str(answer["run_id"]))

    def _install(self) -> None:
        name = f"kept-{self._number}-{self._chance.randrange(2)}"
        source = self._folder / "sources" / name
        source.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: Is installed in a soak. Use when nothing else does.\n---\nText {self.turns}.\n"
        (source / "SKILL.md").write_text(text)
        self._promised.unsure("skill", name)
        if self._call(["install", str(source), "-y", "--force"], rooted=False) is not None:
            self._promised.keep("skill", name)
        if self._chance.random() < 0.4:
            self._promised.unsure("skill", name)
            if self._call(["uninstall", name, "-y"], rooted=False) is not None:
                self._promised.keep("skill", name, there=False)

    def _switch(self) -> None:
        self._call(["disable", f"other-{self._number}"])
        self._call(["enable", f"other-{self._number}"])

    def _remember(self) -> None:
        words = f"tea of worker {self._number} in turn {self.turns}"
        given = json.dumps({"preference": words, "category": "drink"})
        answer = self._call(["run", "preference-recorder", "--input", given, "--context", '{"userId": "ada"}'])
        if answer:
            self._promised.keep("run", str(answer["run_id"]))
            self._promised.keep("memory", words)

    def _keep_safe(self) -> None:
        file = self._folder / f"backup-{self._number}.tar.gz"
        if self._call(["backup", str(file), "--force"], rooted=False) is not None:
            self._call(["restore", str(file), "--check"], rooted=False)

    def _schedule(self) -> None:
        name = f"soon-{self._number}-{self.turns}"
        if self._call(["schedule", "add", name, "quick", "--cron", "* * * * *"]) is not None:
            self._promised.keep("schedule", name)
        self._call(["schedule", "due"])
        old = f"soon-{self._number}-{self.turns - len(self._kinds)}"
        if self._promised.records.get(("schedule", old)):
            self._promised.unsure("schedule", old)
            if self._call(["schedule", "remove", old], rooted=False) is not None:
                self._promised.keep("schedule", old, there=False)

    def _agent(self) -> None:
        name = f"clerk-{self._number}-{self.turns}"
        if self._call(["agents", "create", name]) is not None:
            self._promised.keep("agent", name)

    def _key(self) -> None:
        name = f"key-{self._number}-{self.turns}"
        if self._call(["keys", "create", name, "--scope", "skills:read"], rooted=False) is not None:
            self._promised.keep("key", name)

    def _call(self, words: list[str], *, rooted: bool = True) -> dict[str, Any] | None:
        """What the command answered; None when it was killed or ended badly."""
        command = skillyard(*words, "--json", *(["--root", str(self._folder / "skills")] if rooted else []))
        process = self._commands.start(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(self._commands.environment), cwd=self._folder / "project",
        )  # fmt: skip
        what = " ".join(words[:2] if words[0] in ("schedule", "agents", "keys", "db", "memories") else words[:1])
        if self._chance.random() < self._kills:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._chance.uniform(0.2, 2) * self._commands.pace)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                self._promised.count(f"{what}, killed")
                return None
        try:
            out, reported = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self._promised.strange.append(f"{what} did not end in {_LONGEST_S} s")
            return None
        self._promised.count(what if process.returncode == 0 else f"{what}, ended with {process.returncode}")
        if process.returncode and any(word in out + reported for word in _TROUBLE):
            self._promised.strange.append(f"{what} ended with {process.returncode}: {(reported or out).strip()[-400:]}")
        if process.returncode:
            time.sleep(0.05)
            return None
        try:
            answer = json.loads(out)
        except ValueError:
            answer = {"text": out}
        return answer if isinstance(answer, dict) else {"all": answer}
