"""A memory service keeps each memory for its owner and gives back what fits; the same for every implementation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidInput
from skillyard.memory import Memory, MemoryService, PersonalMemory, SqlMemoryService
from skillyard.memory.sql_memory import indexed_words, query_words, relevance


@pytest.mark.row("000-44")
async def test_what_was_saved_is_recalled_whole(service: MemoryService) -> None:
    given_ = Memory("likes green tea", "ada", metadata={"type": "preference", "importance": 0.8, "shop": {"a": [1, None]}})
    saved = await service.save(given_)
    assert saved.id
    (found,) = await service.recall("tea", user_id="ada")
    assert (found.memory.content, found.memory.user_id, found.memory.id) == ("likes green tea", "ada", saved.id)
    assert dict(found.memory.metadata) == dict(given_.metadata)
    assert found.memory.timestamp == given_.timestamp
    assert 0 <= found.score <= 1
    assert isinstance(service, MemoryService)


@pytest.mark.row("000-44", "D-18")
async def test_nobody_sees_the_memories_of_another(service: MemoryService) -> None:
    await service.save(Memory("tea", "ada"))
    await service.save(Memory("tea", "bob"))
    await service.save(Memory("tea", metadata={"ownerType": "household", "ownerId": "ada"}))
    assert [found.memory.owner for found in await service.recall("tea", user_id="ada")] == [("user", "ada")]
    assert await service.recall("tea", user_id="") == ()
    assert len(await service.recall("tea", user_id=None)) == 3


@pytest.mark.row("000-44")
async def test_tags_and_knowledge_bases_narrow(service: MemoryService) -> None:
    await service.save(Memory("tea one", "ada", metadata={"tags": ["drink", "hot"], "knowledgeBase": "kitchen"}))
    await service.save(Memory("tea two", "ada", metadata={"tags": ["drink"]}))
    tagged = [found.memory.content for found in await service.recall("tea", user_id="ada", tags=["hot", "drink"])]
    based = [found.memory.content for found in await service.recall("tea", user_id="ada", knowledge_base="kitchen")]
    assert tagged == based == ["tea one"]


@pytest.mark.row("D-18")
async def test_a_key_is_saved_once(service: MemoryService) -> None:
    first = await service.save(Memory("tea", "ada", key="k"))
    second = await service.save(Memory("tea", "ada", key="k"))
    assert first.id == second.id
    assert len(await service.recall("tea", user_id="ada")) == 1


async def test_a_limit_is_kept(service: MemoryService) -> None:
    for number in range(5):
        await service.save(Memory(f"tea {number}", "ada"))
    assert len(await service.recall("tea", user_id="ada", limit=3)) == 3


@pytest.mark.row("000-43")
@pytest.mark.parametrize(
    "memory",
    [
        Memory("tea"),
        Memory(" ", "ada"),
        Memory("tea", "ada", metadata={"importance": 3}),
        Memory("tea", "ada", metadata={"importance": float("nan")}),
    ],
)
async def test_what_has_no_owner_no_content_or_no_sound_importance_is_refused(service: MemoryService, memory: Memory) -> None:
    with pytest.raises(InvalidInput):
        await service.save(memory)
    assert await service.recall("tea", user_id=None) == ()


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerType": "world"}, {"type": "dream"}, {"importance": True}, {"importance": "high"}, {"ownerId": "bob"},
        {"when": datetime.now(UTC)}, {"x": float("inf")},
    ],
)  # fmt: skip
async def test_the_built_in_service_refuses_what_it_could_not_give_back(
    sql: SqlMemoryService, metadata: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput):
        await sql.save(Memory("tea", "ada", metadata=metadata))


@pytest.mark.row("000-44")
@pytest.mark.parametrize(
    ("content", "query", "fits"),
    [
        ("Ada prefers drinking oolong tea", "drinks tea", True),
        ("Ada prefers oolong tea", "coffee", False),
        ("用户喜欢喝乌龙茶", "乌龙茶", True),
        ("用户喜欢喝乌龙茶", "茶", True),
        ("用户喜欢喝乌龙茶", "咖啡", False),
        ("紅茶が好きです", "紅茶", True),
        ("Café Zürich", "cafe zurich", True),
        ("tea", "which tea shall I buy for tomorrow's breakfast guests", True),
        ("the annual report covers sales marketing research and staff", "report of the weather station", False),
        ('she said "NEAR" OR (x*y)', '"NEAR" AND (x', True),
        ("ключ под ковриком", "где ключ", True),
    ],
)
async def test_recall_goes_by_words_in_every_script(sql: SqlMemoryService, content: str, query: str, fits: bool) -> None:
    await sql.save(Memory(content, "ada"))
    assert bool(await sql.recall(query, user_id="ada")) is fits


@pytest.mark.row("000-44")
async def test_the_best_fit_comes_first_then_the_most_important_then_the_newest(sql: SqlMemoryService) -> None:
    now = datetime.now(UTC)
    for content, importance, age in (
        ("green tea old", 0.2, 3),
        ("green tea", 0.2, 2),
        ("green coffee", 1.0, 1),
        ("green tea weighty", 0.9, 4),
    ):
        await sql.save(Memory(content, "ada", now - timedelta(hours=age), {"importance": importance}))
    found = await sql.recall("green tea", user_id="ada")
    assert [item.memory.content for item in found] == ["green tea weighty", "green tea", "green tea old", "green coffee"]
    assert [item.score for item in found] == [1, 1, 1, 0.5]
    assert len(await sql.recall("green tea", user_id="ada", threshold=0.6)) == 3


@pytest.mark.parametrize(("limit", "threshold"), [(0, 0.5), (1, -0.1), (1, 1.1)])
async def test_a_limit_or_threshold_that_cannot_be_meant_is_refused(
    sql: SqlMemoryService, limit: int, threshold: float
) -> None:
    with pytest.raises(InvalidInput):
        await sql.recall("tea", user_id="ada", limit=limit, threshold=threshold)


async def test_a_query_without_words_recalls_nothing(sql: SqlMemoryService) -> None:
    await sql.save(Memory("tea", "ada"))
    assert await sql.recall("the of !?", user_id="ada") == ()


async def test_many_who_save_one_key_at_once_keep_one_memory(sql: SqlMemoryService) -> None:
    saved = await asyncio.gather(*(sql.save(Memory("tea", "ada", key="k")) for _ in range(8)))
    assert len({memory.id for memory in saved}) == 1


async def test_a_memory_can_be_forgotten_by_its_owner_and_is_found_no_more(sql: SqlMemoryService) -> None:
    saved = await sql.save(Memory("tea", "ada", metadata={"tags": ["drink"]}))
    assert saved.id is not None
    assert not await sql.forget(saved.id, user_id="bob")
    assert await sql.forget(saved.id, user_id="ada")
    assert not await sql.forget(saved.id)
    assert await sql.recall("tea", user_id=None) == ()


@pytest.mark.row("000-44")
async def test_a_later_preference_takes_the_place_of_the_earlier(sql: SqlMemoryService) -> None:
    assert isinstance(sql, PersonalMemory)
    await sql.learn_preference("ada", "drink", "coffee", confidence=0.4)
    await sql.learn_preference("bob", "drink", "milk")
    await sql.learn_preference("ada", "drink", {"hot": "tea"}, confidence=0.9, context={"at": "home"})
    (kept,) = await sql.list(user_id="ada")
    assert (kept.content, kept.type, kept.importance) == ('drink: {"hot": "tea"}', "preference", 0.9)
    assert kept.metadata["context"] == {"at": "home"}
    assert await sql.recall("coffee", user_id=None) == ()


@pytest.mark.row("000-44")
async def test_a_timeline_runs_from_the_oldest_to_the_newest_of_the_last_days(sql: SqlMemoryService) -> None:
    now = datetime.now(UTC)
    for age in (40, 3, 10):
        await sql.save(Memory(f"{age} days ago", "ada", now - timedelta(days=age)))
    await sql.record_emotion("ada", "joy", intensity=0.7, context={"because": "tea"})
    timeline = await sql.build_timeline("ada", days=30)
    assert [memory.content for memory in timeline] == ["10 days ago", "3 days ago", "joy"]
    assert (timeline[-1].type, timeline[-1].importance, timeline[-1].tags) == ("event", 0.7, ("emotion", "joy"))


@given(st.text(max_size=80))
def test_a_text_always_fits_itself(text: str) -> None:
    if query := query_words(text):
        assert relevance(query, indexed_words(text)) == 1
    assert relevance(("w",), indexed_words("")) == 0


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_score_is_from_0_to_1(query: str, text: str) -> None:
    if words := query_words(query):
        assert 0 <= relevance(words, indexed_words(text)) <= 1
