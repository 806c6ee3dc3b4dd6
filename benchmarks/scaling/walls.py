"""Which wall comes first: what a site asks of each part, against what the part does at the most; arithmetic, no more.

A part whose share of its most comes near 1 is the wall; queues before it grow from about 0.7 on, because what is asked comes in
bursts: with a share r the wait is about r / (1 - r) times the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["SITES", "Part", "Site", "parts", "waits"]


@dataclass(frozen=True, slots=True)
class Site:
    """So many skills, servers, worker processes and agents; of each agent so many `reads` and `runs` a minute."""

    skills: int
    servers: int
    workers: int
    agents: int
    reads: float = 6
    runs: float = 1

    @property
    def reads_s(self) -> float:
        """What is read a second."""
        return self.agents * self.reads / 60

    @property
    def runs_s(self) -> float:
        """What is run a second."""
        return self.agents * self.runs / 60


SITES: Mapping[str, Site] = {
    "a team: 500 skills, 4 workers, 50 agents": Site(500, 3, 4, 50),
    "a company: 10,000 skills, 50 workers, 1,000 agents": Site(10_000, 4, 50, 1_000),
    "the largest: 1,000,000 skills, 1,000 workers, 10,000 agents": Site(1_000_000, 12, 1_000, 10_000),
}
BEAT_S = 5.0
RUN_S = 1.0  # how long a run is at work on average


@dataclass(frozen=True, slots=True)
class Part:
    """One part: `most` in its own unit, how much of that a site asks for, and what moves the wall."""

    name: str
    unit: str
    most: float
    asked: Callable[[Site], float]
    moved_by: str

    def share(self, site: Site) -> float:
        """How much of its most the site asks for; 1 is the wall."""
        return self.asked(site) / self.most


def waits(share: float) -> float:
    """How many times its own time a request waits before a part that is busy to that share; without end from 1 on."""
    return share / (1 - share) if share < 1 else float("inf")


def parts(measured: Mapping[str, float]) -> tuple[Part, ...]:
    """The parts of a site, from figures by name (`docs/scaling.md` tells how each was measured)."""
    return (
        Part(
            "connections of PostgreSQL",
            "connections",
            measured["connections"],
            lambda site: (
                site.servers * measured["connections of a server"] + site.workers * measured["connections of a worker"]
            ),
            "more runs in one worker (--concurrency), a pooler in session mode",
        ),
        Part(
            "beats of workers in PostgreSQL",
            "a second",
            measured["beats of workers"],
            lambda site: site.workers / BEAT_S,
            "more runs in one worker, several databases (one for each organisation)",
        ),
        Part(
            "runs through PostgreSQL",
            "a second",
            measured["runs through the queue"],
            lambda site: site.runs_s,
            "faster commits (synchronous_commit, disks), runs in the server for what is short, several databases",
        ),
        Part(
            "turns of workers",
            "runs at once",
            measured["runs at once of a worker"],
            lambda site: site.runs_s * RUN_S / site.workers,
            "more workers, more processors",
        ),
        Part(
            "servers that answer",
            "requests a second of one",
            measured["requests of a server"],
            lambda site: site.reads_s / site.servers,
            "more servers, --workers on each, a CDN before the store and the well-known index",
        ),
        Part(
            "memory of the catalog in a server",
            "skills",
            measured["memory of a server"] / measured["memory of a skill"],
            lambda site: site.skills,
            "organisations of their own homes; a server for each group of them",
        ),
    )
