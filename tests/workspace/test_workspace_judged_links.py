"""File tools are judged by the name that is given and by where it leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.permissions import (
    ApprovalAnswer,
    Approvals,
    CommandGate,
    CommandPolicy,
    CommandRequest,
    CommandRules,
    question_lines,
)
from skillyard.workspace import Workspace, WorkspaceAnswer

MakeWorkspace = Callable[..., Workspace]


@pytest.fixture
def ruled(make_workspace: MakeWorkspace) -> Workspace:
    """A workspace in which nothing below `secret` may be read or written, with links that lead there."""
    policy = CommandPolicy([("operator", CommandRules(deny=["Read(secret/**)", "Write(secret/**)"]))])
    made: list[Workspace] = []
    gate = CommandGate(lambda: policy, Approvals(), lambda: made[0].path)
    made.append(make_workspace(authorizer=gate))
    folder = Path(made[0].folder)
    for name in ("secret", "open"):
        (folder / name).mkdir()
        (folder / name / "key").write_text("KEY")
    (folder / "whole").symlink_to("secret")
    (folder / "one").symlink_to("open/../secret/key")
    (folder / "twice").symlink_to("whole")
    (folder / "absolute").symlink_to(f"{made[0].path}/secret")
    (folder / "fine").symlink_to("open")
    return made[0]


@pytest.mark.abuse("I12")
@pytest.mark.parametrize("path", ["secret/key", "whole/key", "one", "twice/key", "absolute/key", "fine/../whole/./key"])
async def test_a_link_gives_nothing_that_its_target_does_not(ruled: Workspace, path: str) -> None:
    calls: tuple[WorkspaceAnswer, ...] = (
        await ruled.file_read(path),
        await ruled.file_search("KEY", path=path),
        await ruled.file_write(path, "mine"),
        await ruled.file_edit(path, "KEY", "mine"),
    )
    assert [answer.code for answer in calls] == ["permission_denied"] * 4
    assert Path(ruled.folder, "secret/key").read_text() == "KEY"


async def test_a_link_to_what_may_be_used_is_used(ruled: Workspace) -> None:
    assert (await ruled.file_read("fine/key")).text.endswith("KEY")
    assert (await ruled.file_write("fine/new/file", "x")).ok
    assert Path(ruled.folder, "open/new/file").read_text() == "x"


@pytest.mark.abuse("I12")
async def test_a_link_that_was_set_after_the_ruling_is_refused(ruled: Workspace) -> None:
    session, _ = await ruled.session()
    arguments = {"path": "fine/key", "content": "mine", "judged": f"{ruled.path}/open/key"}
    Path(ruled.folder, "fine").unlink()
    Path(ruled.folder, "fine").symlink_to("secret")
    answer = await session.operation("write", arguments, seconds=20.0, folder=ruled.path)
    assert isinstance(answer, dict)
    assert answer["error"] == "path_refused"
    assert Path(ruled.folder, "secret/key").read_text() == "KEY"


async def test_an_answer_about_a_file_holds_for_what_would_be_written(make_workspace: MakeWorkspace) -> None:
    asked: list[CommandRequest] = []

    class Person:
        async def ask(self, request: object) -> ApprovalAnswer:
            raise AssertionError(request)

        async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
            asked.append(request)
            return ApprovalAnswer("session")

    policy = CommandPolicy([("operator", CommandRules(ask=["Write", "Read"]))])
    gate = CommandGate(lambda: policy, Approvals(Person()), lambda: workspace.path)
    workspace = make_workspace(authorizer=gate)
    for content in ("echo hello\n", "echo hello\n", "curl evil\n", "x" * 30_000, b"\xff"):
        assert (await workspace.file_write("deploy.sh", content)).ok
    await workspace.file_write("deploy.sh", "one two")
    assert (await workspace.file_edit("deploy.sh", "one", "three")).ok
    await workspace.file_search("th.ee", glob="*.sh")
    shown = [request.content or "" for request in asked]
    assert shown[:2] == ["echo hello\n", "curl evil\n"], "the same is not asked again"
    assert shown[2].endswith("x\n[10000 more characters]")
    assert shown[3].startswith("[1 bytes, sha256:")
    assert shown[5:] == ["replace (3 characters):\none\nwith:\nthree", "th.ee\nin files: *.sh"]
    assert question_lines(asked[1].to_dict())[1:4] == ["  | deploy.sh", "  with", "  | curl evil"]


@pytest.mark.abuse("I12")
async def test_a_command_reads_and_writes_nothing_through_a_link_that_its_target_does_not_allow(ruled: Workspace) -> None:
    commands = ("cat whole/key", "cp 'one' out", "cd fine && cat ../twice/key", "echo x > whole/new", "tee absolute/new")
    for command in commands:
        answer = await ruled.bash(command)
        assert (answer.code, "KEY" in answer.text) == ("permission_denied", False), command
    assert (await ruled.bash("cat whole/key", background=True)).code == "permission_denied"
    assert (await ruled.bash("cat fine/key")).text == "KEY"
    assert sorted(path.name for path in Path(ruled.folder, "secret").iterdir()) == ["key"]
