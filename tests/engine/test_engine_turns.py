"""Who is next: organisations take turns, priorities count within one, limits let others pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.engine import EngineSettings, Slots
from skillyard.engine.slots import SlotRequest
from skillyard.errors import InvalidConfiguration


async def _order(slots: Slots, asks: list[SlotRequest]) -> list[SlotRequest]:
    """In which order they work, all having asked before the first of them ended."""
    began: list[SlotRequest] = []

    async def one(asked: SlotRequest) -> None:
        async with slots.acquire(asked):
            began.append(asked)
            await asyncio.sleep(0)

    async with slots.acquire(SlotRequest("first")):
        waiting = [asyncio.create_task(one(asked)) for asked in asks]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    return began


async def test_an_organisation_with_a_thousand_runs_starves_no_other() -> None:
    many, few = [SlotRequest("many", f"skill-{number}") for number in range(1000)], [SlotRequest("few"), SlotRequest("few")]
    order = await _order(Slots(1), [*many, *few])
    assert [order.index(asked) for asked in few][-1] <= 3
    assert len(order) == 1002


async def test_the_more_important_run_of_an_organisation_goes_first_and_equals_keep_their_order() -> None:
    asks = [SlotRequest("a", str(number), priority=priority) for number, priority in enumerate((0, 5, -5, 5, 0))]
    assert [asked.skill for asked in await _order(Slots(1), asks)] == ["1", "3", "0", "4", "2"]


async def test_a_skill_at_its_limit_lets_others_pass_by_name_and_by_id() -> None:
    for limit in ("heavy", "user:heavy"):
        slots = Slots(3, per_skill={limit: 1})
        heavy = SlotRequest("a", "heavy", "user:heavy")
        async with slots.acquire(heavy):
            held = asyncio.create_task(_taken(slots, heavy))
            await asyncio.wait_for(_taken(slots, SlotRequest("a", "light")), 5)
            assert not held.done()
        await asyncio.wait_for(held, 5)


async def test_an_organisation_at_its_limit_lets_others_pass() -> None:
    slots = Slots(3, per_organisation=1)
    async with slots.acquire(SlotRequest("a")):
        held = asyncio.create_task(_taken(slots, SlotRequest("a")))
        await asyncio.wait_for(_taken(slots, SlotRequest("b")), 5)
        assert not held.done()
    await asyncio.wait_for(held, 5)


async def _taken(slots: Slots, asks: SlotRequest) -> None:
    async with slots.acquire(asks):
        pass


_ASKS = st.builds(SlotRequest, st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.just(""), st.integers(-2, 2))


@given(st.lists(st.tuples(_ASKS, st.booleans()), max_size=30), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_every_turn_is_given_back_and_no_limit_is_passed(
    asked: list[tuple[SlotRequest, bool]], number: int, of_one: int, of_skill: int
) -> None:
    slots = Slots(number, per_organisation=of_one, per_skill={"x": of_skill})
    working: list[SlotRequest] = []

    async def one(asks: SlotRequest) -> None:
        async with slots.acquire(asks):
            working.append(asks)
            assert len(working) <= number
            assert sum(other.organisation == asks.organisation for other in working) <= of_one
            assert sum(other.skill == "x" for other in working) <= of_skill
            try:
                await asyncio.sleep(0)
            finally:
                working.remove(asks)

    async def all_of_them() -> None:
        tasks = [(asyncio.create_task(one(asks)), ends) for asks, ends in asked]
        await asyncio.sleep(0)
        for task, ends in tasks:
            if ends:
                task.cancel()
        results = await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert not [result for result in results if isinstance(result, Exception)]
        async with asyncio.timeout(5):
            async with slots.acquire(SlotRequest("z", "x")):
                pass

    asyncio.run(all_of_them())


@pytest.mark.parametrize(
    "table",
    [{"kind": "carrier pigeon"}, {"pool": ""}, {"concurrency": 0}, {"per-skill": 3}, {"per-skill": {"x": True}}, {"speed": 1}],
)
def test_a_setting_that_cannot_be_meant_is_refused_with_its_key(table: dict[str, Any], configured: Callable[..., Any]) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        EngineSettings.of(configured(table))
    assert "engine." in refused.value.message
    assert refused.value.hint


def test_settings_say_where_runs_work_and_how_many(configured: Callable[..., Any]) -> None:
    table = {"kind": "procrastinate", "pool": "all", "concurrency": 3, "per-organisation": 2, "per-skill": {"pdf": 1}}
    found = EngineSettings.of(configured(table))
    assert (found.kind, found.pool, found.concurrency, found.per_organisation) == ("procrastinate", "all", 3, 2)
    assert dict(found.per_skill) == {"pdf": 1}
    assert EngineSettings.of(configured({})) == EngineSettings()
