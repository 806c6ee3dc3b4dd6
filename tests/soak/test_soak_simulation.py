"""The simulation of a site agrees with the arithmetic of its walls, and with what is known of queues."""

from __future__ import annotations

import random

import pytest

from benchmarks.scaling.simulation import MEASURED, first_wall, queue, simulate
from benchmarks.scaling.walls import SITES, Site, parts, waits

OF_PART = {
    "servers": ("servers that answer",),
    "PostgreSQL": ("beats of workers in PostgreSQL", "runs through PostgreSQL"),
    "turns of workers": ("turns of workers",),
}
NO_QUEUES = dict.fromkeys(("connections", "connections of a server", "connections of a worker"), 1.0) | {
    "memory of a server": 1.0, "memory of a skill": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("name", SITES)
def test_each_part_is_as_busy_as_the_arithmetic_says(name: str) -> None:
    site = SITES[name]
    reported = {part.name: part.share(site) for part in parts({**NO_QUEUES, **MEASURED})}
    simulated = simulate(site, seconds=60 if site.agents > 1000 else 600)
    for found in simulated:
        expected = sum(reported[part] for part in OF_PART[found.part])
        if found.part == "servers":  # the arithmetic counts what is read, and a run is asked for there too
            expected *= (site.reads + site.runs) / site.reads
        if found.part == "turns of workers" and simulated[1].grows:
            continue  # less comes than is asked for: PostgreSQL lets no more through
        assert found.share == pytest.approx(expected, rel=0.15, abs=0.01), found


def test_one_waits_as_long_as_theory_says() -> None:
    chance, at, asked = random.Random(1), 0.0, []
    for _ in range(100_000):
        at += chance.expovariate(0.7)
        asked.append((at, chance.expovariate(1.0), ""))
    waited, _ = queue(asked, 1)
    assert sum(waited) / len(waited) == pytest.approx(waits(0.7), rel=0.15)


def test_the_same_seed_gives_the_same_and_the_wall_is_where_the_queue_grows() -> None:
    small, large = (SITES[name] for name in (next(iter(SITES)), list(SITES)[-1]))
    assert simulate(small) == simulate(small)
    assert simulate(small) != simulate(small, seed=9)
    assert not any(found.grows for found in simulate(small))
    simulated = simulate(large, seconds=60)
    assert first_wall(simulated) == "PostgreSQL"
    growing = [found for found in simulated if found.grows]
    assert [found.part for found in growing] == ["PostgreSQL"]
    assert growing[0].median_s > 10


def test_more_places_make_the_wait_shorter() -> None:
    few, many = (simulate(Site(1000, servers, 4, 1500), seconds=60) for servers in (1, 2))
    assert many[0].p95_s < few[0].p95_s
