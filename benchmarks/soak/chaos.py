"""Faults, drawn from the seed: every kind comes once before one comes again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.soak.parts import Part
from benchmarks.soak.site import Site

__all__ = ["Chaos"]

Fault = Callable[[], Coroutine[Any, Any, None]]


class Chaos:
    """Does something to the site now and then; `done` counts the faults by kind, `log` says when each came."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._chance = random.Random(site.plan.seed)
        self._bag: list[str] = []
        self._kinds: dict[str, Fault] = {
            "kill server": lambda: self._kill(self._one("server")),
            "pause server": lambda: self._pause(self._one("server")),
            "cut server off from the database": lambda: self._cut(self._one("server").name),
            "silence between server and database": lambda: self._hold(self._one("server").name),
            "kill worker": lambda: self._kill(self._one("worker")),
            "pause worker": lambda: self._pause(self._one("worker")),
            "cut worker off from the database": lambda: self._cut(self._one("worker").name),
            "silence between worker and database": lambda: self._hold(self._one("worker").name),
            "kill proxy": lambda: self._kill(site.parts["nginx"]),
            "pause proxy": lambda: self._pause(site.parts["nginx"]),
            "kill database": lambda: self._kill(site.cluster),
            "pause database": lambda: self._pause(site.cluster),
            "kill one connection of the database": self._kill_backend,
            "clock of the database jumps": self._set_clock,
            "cut store off": lambda: self._cut("store"),
            "silence of the store": lambda: self._hold("store"),
            "pause store": lambda: self._pause(site.parts["store"]),
        }
        self.done: Counter[str] = Counter()
        self.log: list[str] = []

    async def go_on(self, stop: asyncio.Event) -> None:
        """Do one fault after the other, several at once at times, until told to stop; all are undone then."""
        going: set[asyncio.Task[None]] = set()
        begun = asyncio.get_running_loop().time()
        while not stop.is_set():
            kind = self._draw()
            self.done[kind] += 1
            self.log.append(f"{asyncio.get_running_loop().time() - begun:7.1f} s  {kind}")
            going.add(task := asyncio.create_task(self._kinds[kind](), name=kind))
            task.add_done_callback(going.discard)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._chance.uniform(0.3, 1.7) * self._site.plan.pace)
        await asyncio.gather(*going)

    def _draw(self) -> str:
        if not self._bag:
            self._bag = sorted(self._kinds)
            self._chance.shuffle(self._bag)
        return self._bag.pop()

    def _one(self, kind: str) -> Part:
        return self._chance.choice([part for name, part in self._site.parts.items() if name.startswith(kind)])

    async def _kill(self, part: Part) -> None:
        if part.processes():
            pause = self._chance.uniform(0.1, 1.5)
            await part.kill()
            await asyncio.sleep(pause)
            if not part.processes():
                await part.start()

    async def _pause(self, part: Part) -> None:
        part.pause()
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        part.go_on()

    async def _cut(self, name: str) -> None:
        self._site.wires[name].cut()
        await asyncio.sleep(self._chance.uniform(0.2, 3))
        self._site.wires[name].heal()

    async def _hold(self, name: str) -> None:
        self._site.wires[name].hold()
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        self._site.wires[name].heal()

    async def _set_clock(self) -> None:
        """An hour and a bit ahead or back, for a moment: longer than anybody there waits for anything."""
        self._site.cluster.set_clock(self._chance.choice([-4000, 4000]))
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        self._site.cluster.set_clock(0)

    async def _kill_backend(self) -> None:
        if (process := self._site.cluster.one_backend(self._chance.choice)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
