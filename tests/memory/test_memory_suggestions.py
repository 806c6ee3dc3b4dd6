"""What skills suggest is remembered: each for its owner, once, and one bad suggestion loses no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, Executor, Skill, SkillTools
from skillyard.engine import LocalEngine, Records
from skillyard.execution import MemoryWrite, RunRequest
from skillyard.memory import OWNERS, Memory, MemoryService, SqlMemoryService, keep_suggestions, owners_of, read_owner

ADA = {"userId": "ada", "householdId": "h1"}
SCRIPT = """
import json
def execute(parameters, context):
    write = {"ownerType": "user", "ownerId": "ada", "type": "preference", "importance": 4}
    return {"output": "ok", "status": parameters.get("status", "success"), "memoryWrites": [
        {**write, "content": "likes tea", "metadata": {"source": "user", "ownerId": "bob", "tags": ["drink"]}},
        {**write, "content": ""}, {**write, "content": "plays chess"}]}
"""


def _write(content: str = "tea", owner: tuple[str, str] = ("user", "ada"), **metadata: object) -> MemoryWrite:
    return MemoryWrite(*owner, "preference", 4, 0.8, content, metadata)


async def _keep(
    service: MemoryService, *writes: MemoryWrite, run_id: str = "run_1", context: Mapping[str, object] = ADA
) -> Any:
    return await keep_suggestions(service, writes, run_id=run_id, skill_id="user:x", context=context)


class _Failing:
    """A service that loses every second memory."""

    def __init__(self, service: MemoryService) -> None:
        self.service = service
        self.calls = 0

    async def save(self, memory: Memory) -> Memory:
        self.calls += 1
        if self.calls % 2:
            raise ConnectionError("gone")
        return await self.service.save(memory)

    recall = None


@pytest.mark.row("000-42", "C-7", "D-18")
async def test_a_suggestion_becomes_a_memory_and_reserved_keys_win(service: MemoryService) -> None:
    lies = {
        "source": "user",
        "sourceSkill": "admin",
        "ownerId": "bob",
        "type": "fact",
        "importance": 1,
        "runId": "x",
        "mine": 1,
    }
    (kept,) = await _keep(service, _write(**lies))
    assert kept.saved
    (found,) = await service.recall("tea", user_id="ada")
    assert found.memory.user_id == "ada"
    assert dict(found.memory.metadata) == {
        "source": "skill", "sourceSkill": "user:x", "runId": "run_1", "ownerType": "user", "ownerId": "ada",
        "type": "preference", "importance": 0.8, "originalImportance": 4, "mine": 1,
    }  # fmt: skip
    assert await service.recall("tea", user_id="bob") == ()


@pytest.mark.row("000-42", "D-18")
async def test_one_that_fails_loses_no_other(host: Any) -> None:
    kept = await _keep(_Failing(host), _write("a1"), _write("b2"), _write("c3"), _write("d4"))  # type: ignore[arg-type]
    assert [item.saved for item in kept] == [False, True, False, True]
    assert kept[0].reason == "ConnectionError: gone"
    assert [memory.content for memory in host.memories] == ["b2", "d4"]
    assert kept[0].to_dict()["reason"] == "ConnectionError: gone"
    assert kept[1].to_dict()["memoryId"] == "0"


@pytest.mark.row("D-18")
@pytest.mark.parametrize(
    ("owner", "context", "reason"),
    [
        (("user", "bob"), ADA, "its user is not the one of this run"),
        (("household", "h2"), ADA, "its household is not the one of this run"),
        (("user", "ada"), {}, "the run was made for no user"),
        (("task", "t1"), ADA, "the run was made for no task"),
    ],
)
async def test_nothing_is_saved_for_another_owner_than_the_runs_own(
    service: MemoryService, owner: tuple[str, str], context: Mapping[str, object], reason: str
) -> None:
    refused, kept = await _keep(service, _write(owner=owner), _write(), context=context | {"userId": "ada"} if context else ADA)
    assert kept.saved
    (refused,) = await _keep(service, _write(owner=owner), context=context)
    assert (refused.saved, refused.reason) == (False, reason)


@pytest.mark.row("D-18")
async def test_a_second_attempt_of_a_run_saves_nothing_twice(service: MemoryService) -> None:
    await _keep(service, _write("one tea"), _write("two tea"))
    await _keep(service, _write("two tea"), _write("one tea"))
    assert len(await service.recall("tea", user_id="ada")) == 2
    await _keep(service, _write("one tea"), run_id="run_2")
    assert len(await service.recall("tea", user_id="ada")) == 3


async def test_other_owners_are_kept_apart_from_users(service: MemoryService) -> None:
    (kept,) = await _keep(service, _write(owner=("household", "h1")))
    assert kept.saved
    assert await service.recall("tea", user_id="h1") == ()
    (found,) = await service.recall("tea", user_id=None)
    assert (found.memory.owner, found.memory.user_id) == (("household", "h1"), None)


@pytest.mark.row("000-44")
@pytest.mark.parametrize("kind", OWNERS)
async def test_a_run_recalls_what_its_own_owners_had_remembered(service: MemoryService, kind: str) -> None:
    context = {"userId": "u1", "householdId": "h1", "taskId": "t1", "groupId": "g1"}
    own = dict(owners_of(context))
    await service.save(Memory("likes tea", metadata={"ownerType": kind, "ownerId": own[kind]}))
    await service.save(Memory("likes tea, too", metadata={"ownerType": kind, "ownerId": "other"}))
    found = await service.recall("tea", user_id=None, owners=owners_of(context))
    assert [one.memory.owner for one in found] == [(kind, own[kind])]
    assert await service.recall("tea", user_id="u2", owners=[read_owner("task:t2")]) == ()


@pytest.fixture
def skill(skills_root: Path, make_skill: Any) -> Skill:
    """A skill that suggests two good memories and a bad one."""
    make_skill(skills_root, "example", files={"scripts/execute.py": SCRIPT})
    return Catalog.discover(roots=[skills_root], cache=False).get("example")


Engines = Callable[[MemoryService | None], LocalEngine]


@pytest.mark.row("000-41", "000-42")
async def test_the_good_memories_of_a_run_are_saved_and_the_record_says_which(
    skill: Skill, database_address: str, tmp_path: Path
) -> None:
    records = Records(str(tmp_path), database_address)
    run = await LocalEngine(Executor(), records).run(RunRequest(skill, {}, context={"userId": "ada"}))
    service = SqlMemoryService(lambda: records.database)
    assert {memory.content for memory in await service.list(user_id="ada")} == {"likes tea", "plays chess"}
    (tea,) = await service.recall("tea", user_id="ada", tags=["drink"])
    assert (tea.memory.metadata["source"], tea.memory.importance, tea.memory.owner) == ("skill", 0.8, ("user", "ada"))
    written = records.journal.get(run.run_id).memory_writes
    assert [(write["content"], write["saved"], bool(write["memoryId"])) for write in written] == [
        ("likes tea", True, True),
        ("plays chess", True, True),
    ]
    assert any("memoryWrites[1] was dropped" in warning for warning in run.warnings)
    records.close()


@pytest.mark.row("000-42")
async def test_a_run_that_failed_is_remembered_by_nothing(skill: Skill, tmp_path: Path, host: Any) -> None:
    run = await LocalEngine(Executor(), Records(str(tmp_path)), memory=host).run(
        RunRequest(skill, {"status": "error"}, context=ADA)
    )
    assert not run.ok
    assert host.memories == []


@pytest.mark.row("000-42")
async def test_a_service_that_is_down_fails_no_run(skill: Skill, tmp_path: Path, host: Any) -> None:
    failing = _Failing(host)
    run = await LocalEngine(Executor(), Records(str(tmp_path)), memory=failing).run(RunRequest(skill, {}, context=ADA))  # type: ignore[arg-type]
    assert run.ok
    assert "memory 1 was not saved: ConnectionError: gone" in run.warnings
    assert [memory.content for memory in host.memories] == ["plays chess"]


async def test_without_a_user_nothing_is_saved_and_the_run_says_so(skill: Skill, tmp_path: Path, host: Any) -> None:
    run = await LocalEngine(Executor(), Records(str(tmp_path)), memory=host).run(RunRequest(skill, {}))
    assert run.ok
    assert "memory 1 was not saved: the run was made for no user" in run.warnings
    assert host.memories == []


async def test_the_tools_remember_for_the_user_their_host_names(skill: Skill) -> None:
    catalog = Catalog.discover(roots=[Path(skill.directory).parent], cache=False)
    result = await SkillTools(catalog, context={"userId": "ada"}).call("run_skill", {"skill": "example"})
    assert result.ok
    assert len(await catalog.memory().list(user_id="ada")) == 2
