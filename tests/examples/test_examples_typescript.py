"""The documents' three whole examples in TypeScript: they run as they are, with their memory writes and steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard import Catalog

FOLDER = Path(__file__).with_name("typescript")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.discover(roots=[FOLDER], cache=False)


@pytest.mark.row("000-36", "000-37", "000-41", "C-28")
async def test_the_preference_recorder_suggests_one_memory(catalog: Catalog) -> None:
    given = {"preference": "我喜欢喝拿铁", "category": "drink", "importance": 4}
    run = await catalog.run("preference-recorder", given, context={"userId": "ada"})
    preference = {"content": "用户喜欢喝拿铁", "category": "drink"}
    assert (run.status, run.format) == ("ok", "object"), run.stderr
    assert run.output == {"success": True, "message": "偏好记录成功", "preference": preference}
    (write,) = run.memory_writes
    assert (write.owner_type, write.owner_id, write.type, write.importance) == ("user", "ada", "preference", 4)
    assert write.normalized_importance == 0.8
    assert write.metadata == {"category": "drink", "originalPreference": "我喜欢喝拿铁"}


@pytest.mark.row("000-36")
async def test_without_a_user_the_preference_is_nobodys(catalog: Catalog) -> None:
    run = await catalog.run("preference-recorder", {"preference": "喜欢茶"})
    assert [(write.owner_id, write.importance) for write in run.memory_writes] == [("anonymous", 3)]


@pytest.mark.row("000-35", "000-37", "000-45")
async def test_the_data_processor_traces_its_three_steps(catalog: Catalog) -> None:
    run = await catalog.run("data-processor", {"data": [1, 2, 2, "three", 3]})
    assert run.output == {"count": 3, "sum": 6, "mean": 2}
    assert [(step.step_id, step.step_name, step.output) for step in run.steps] == [
        ("validate", "数据验证", {"valid": False, "count": 4}),
        ("clean", "数据清洗", {"count": 3, "removed": 1}),
        ("analyze", "数据分析", {"count": 3, "sum": 6, "mean": 2}),
    ]
    assert all(step.duration >= 0 and step.timestamp for step in run.steps)


@pytest.mark.row("000-35", "000-37", "000-41", "000-45")
async def test_the_profile_updater_traces_and_remembers(catalog: Catalog) -> None:
    updates = {"email": "ada@example.org", "city": "London", "age": 36}
    run = await catalog.run("user-profile-updater", {"updates": updates, "profile": {"city": "Oslo"}}, context={"userId": "u1"})
    assert isinstance(run.output, dict), run.stderr
    assert run.output["profile"] == {"email": "ada@example.org", "city": "London"}
    assert [(step.step_id, step.step_name) for step in run.steps] == [("validate", "验证更新"), ("apply", "应用更新")]
    assert [(write.content, write.importance, write.metadata["oldValue"]) for write in run.memory_writes] == [
        ("用户email更新为ada@example.org", 5, None),
        ("用户city更新为London", 3, "Oslo"),
    ]


@pytest.mark.row("000-40")
async def test_the_profile_updater_without_updates_fails_and_remembers_nothing(catalog: Catalog) -> None:
    run = await catalog.run("user-profile-updater", {"updates": {"age": 36}}, context={"userId": "u1"})
    assert run.error is not None
    assert (run.status, run.error.code, run.memory_writes) == ("error", "SANDBOX_EXECUTION_ERROR", ())
    assert "TypeError: 没有可用的更新" in run.error.message
