"""A call is done in the folder that it was judged in, however long a person took and whatever other commands did meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillyard.workspace import Workspace

MakeWorkspace = Callable[..., Workspace]


@dataclass
class Ruling:
    """What was decided."""

    allowed: bool
    reason: str = "not here"


@dataclass
class SlowAuthorizer:
    """Somebody who agrees when they have seen the call, but not in the folder `refused`; `held` calls wait to be let go."""

    refused: str = ""
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def authorize(self, _tool: str, subject: str, *, folder: str, content: str | None = None) -> Ruling:
        """The ruling about one call."""
        self.asked.append((subject, folder.rpartition("/")[2]))
        if (event := self.held.pop(subject, None)) is not None:
            await event.wait()
        return Ruling(not self.refused or not folder.endswith(self.refused))


@pytest.mark.abuse("I12")
@pytest.mark.parametrize("background", [False, True])
async def test_a_call_is_judged_again_where_the_folder_has_changed(make_workspace: MakeWorkspace, background: bool) -> None:
    answered, judge = asyncio.Event(), SlowAuthorizer("/a")
    judge.held["rm -rf out"] = answered
    workspace = make_workspace(authorizer=judge)
    for name in ("out", "a/out"):
        Path(workspace.folder, name).mkdir(parents=True)
    waiting = asyncio.create_task(workspace.bash("rm -rf out", background=background))
    assert (await workspace.bash("true")).ok, "who waits for a person keeps nobody else waiting"
    await workspace.bash("cd a")
    answered.set()
    assert (await waiting).code == "permission_denied"
    assert [one for one in judge.asked if one[0] == "rm -rf out"] == [("rm -rf out", judge.asked[0][1]), ("rm -rf out", "a")]
    assert Path(workspace.folder, "a/out").is_dir()


@pytest.mark.abuse("I12")
async def test_commands_that_are_called_at_once_are_each_judged_where_they_begin(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(authorizer=SlowAuthorizer("/secret"))
    await workspace.bash("mkdir secret; echo KEY > secret/key")
    _, look = await asyncio.gather(workspace.bash("sleep 0.1; cd sec*"), workspace.bash("cat key"))
    assert look.code == "permission_denied"


@pytest.mark.abuse("I12")
async def test_a_file_tool_works_in_the_folder_it_was_judged_in(make_workspace: MakeWorkspace) -> None:
    answered, judge = asyncio.Event(), SlowAuthorizer()
    judge.held["key"] = answered
    workspace = make_workspace(authorizer=judge)
    Path(workspace.folder, "secret").mkdir()
    Path(workspace.folder, "secret/key").write_text("KEY")
    waiting = asyncio.create_task(workspace.file_read("key"))
    await workspace.bash("cd secret")
    answered.set()
    assert (await waiting).code == "file_not_found"


@pytest.mark.abuse("I12")
@pytest.mark.parametrize("linked", [False, True])
async def test_nothing_is_executed_where_the_working_folder_is_gone(workspace: Workspace, linked: bool) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: workspace.bash("touch taken"),
        lambda: workspace.code_run("python", "open('taken', 'w')"),
        lambda: workspace.file_write("taken", "x"),
    )
    for call in calls:
        await workspace.bash(f"cd {workspace.path}; rm -rf t; mkdir -p secret t; cd t")
        Path(workspace.folder, "t").rmdir()
        if linked:
            Path(workspace.folder, "t").symlink_to("secret")
        refused = await call()  # type: ignore[misc] # each is a call of a tool
        assert refused.code == "file_not_found"
        assert "working folder" in refused.text
        assert "begins in the workspace" in refused.text
        assert not list(Path(workspace.folder).rglob("taken"))
        assert workspace.working_folder == workspace.path


async def test_without_rules_any_number_of_commands_called_at_once_are_executed(workspace: Workspace) -> None:
    await workspace.bash("true")
    answers = await asyncio.gather(*(workspace.bash(f"mkdir d{number}; cd d{number}") for number in range(8)))
    assert [answer.ok for answer in answers] == [True] * 8
