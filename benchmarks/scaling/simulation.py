"""How long one waits at each part of a site, drawn at random: `python -m benchmarks.scaling.simulation`.

Agents ask when they like, workers beat on time, and what a part does takes as long as was measured on average, now shorter, now
longer. Every part serves in the order of arrival. A run goes through a server, PostgreSQL and the turn of a worker, one after
the other; so each part can be gone through in turn, and no event has to be taken back.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.scaling.walls import BEAT_S, RUN_S, SITES, Site

__all__ = ["MEASURED", "Waits", "first_wall", "queue", "simulate"]

MEASURED: Mapping[str, float] = {  # docs/scaling.md tells how
    "runs through the queue": 76,
    "beats of workers": 104,
    "requests of a server": 280,
    "runs at once of a worker": 4,
}
Asked = tuple[float, float, str]
"""When, how long it takes by itself in seconds, and what it is."""


@dataclass(frozen=True, slots=True)
class Waits:
    """A part: how busy it was asked to be (1 is the wall), and how long one waited for it in seconds."""

    part: str
    share: float
    median_s: float
    p95_s: float

    @property
    def grows(self) -> bool:
        """Whether the queue has no end: then the times only say how long one looked."""
        return self.share >= 1


def simulate(site: Site, measured: Mapping[str, float] = MEASURED, *, seed: int = 8, seconds: float = 300) -> tuple[Waits, ...]:
    """The parts of a site in the order in which a run meets them, after so many seconds of its life."""
    chance = random.Random(seed)

    def lasts(rate: float) -> float:
        return chance.expovariate(rate)

    reads = ((at, lasts(measured["requests of a server"]), "read") for at in _arrivals(chance, site.reads_s, seconds))
    runs = ((at, lasts(measured["requests of a server"]), "run") for at in _arrivals(chance, site.runs_s, seconds))
    served = sorted([*reads, *runs])
    at_servers, left = queue(served, site.servers)
    beats = [
        (first + BEAT_S * number, lasts(measured["beats of workers"]), "beat")
        for first in (chance.uniform(0, BEAT_S) for _ in range(site.workers))
        for number in range(int(seconds / BEAT_S))
    ]
    begun = [(at, lasts(measured["runs through the queue"]), what) for at, what in left if what == "run"]
    written = sorted([*beats, *begun])
    at_database, left = queue(written, 1)
    carried = [(at, lasts(1 / RUN_S), what) for at, what in sorted(left) if what == "run"]
    turns = int(site.workers * measured["runs at once of a worker"])
    at_workers, _ = queue(carried, turns)
    return (
        _reported("servers", served, at_servers, site.servers, seconds),
        _reported("PostgreSQL", written, at_database, 1, seconds),
        _reported("turns of workers", carried, at_workers, turns, seconds),
    )


def first_wall(found: Iterable[Waits]) -> str:
    """The part that is asked for the largest share of what it can do."""
    return max(found, key=lambda waits: waits.share).part


def queue(asked: Iterable[Asked], places: int) -> tuple[list[float], list[tuple[float, str]]]:
    """How long each waited for one of so many places, and when what was done there left; `asked` is in the order of time."""
    free = [0.0] * places
    waited, left = [], []
    for at, lasts, what in asked:
        begins = max(at, heapq.heappop(free))
        heapq.heappush(free, begins + lasts)
        waited.append(begins - at)
        left.append((begins + lasts, what))
    return waited, left


def _arrivals(chance: random.Random, rate: float, seconds: float) -> Iterator[float]:
    """Moments at which somebody comes, so many a second on average."""
    at = chance.expovariate(rate)
    while at < seconds:
        yield at
        at += chance.expovariate(rate)


def _reported(part: str, asked: list[Asked], waited: list[float], places: int, seconds: float) -> Waits:
    share = sum(lasts for at, lasts, _ in asked if at < seconds) / (places * seconds)
    cuts = statistics.quantiles(waited, n=20) if len(waited) > 1 else [0.0] * 19
    return Waits(part, share, cuts[9], cuts[18])


def main() -> int:
    """Tell."""
    print("| Site | Part | share | median wait | 95 of 100 wait at most |\n|---|---|---|---|---|")
    for name, site in SITES.items():
        found = simulate(site)
        for waits in found:
            reported = (
                ("grows", "grows") if waits.grows else (f"{waits.median_s * 1000:.1f} ms", f"{waits.p95_s * 1000:.1f} ms")
            )
            print(f"| {name} | {waits.part} | {waits.share:.2f} | {reported[0]} | {reported[1]} |")
        print(f"| {name} | first wall: {first_wall(found)} | | | |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
