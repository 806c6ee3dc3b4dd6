"""Static skills give a file of their own, and no other."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from skillyard.errors import FileMissing, NotExecutable, PathRefused, PermissionDenied
from skillyard.execution import Executor, RunRequest


@pytest.mark.row("D-21")
async def test_a_static_skill_gives_its_file(write_skill) -> None:
    files = {"assets/data.json": '{"a": [1, 2]}', "assets/note.txt": "text"}
    run = await Executor().run(RunRequest(write_skill(files, kind="static", config={"dataPath": "./assets/data.json"}), {}))
    assert (run.status, run.output, run.isolation) == ("ok", {"a": [1, 2]}, "none")
    text = write_skill(files, kind="static", config={"dataFile": "assets/note.txt", "format": "text"})
    assert (await Executor().run(RunRequest(text, {}))).output == "text"
    assert Executor().can_run(text)


@pytest.mark.row("D-21")
@pytest.mark.parametrize("path", ["../{}", "/etc/hostname", "assets/../../{}", "assets/link.json"])
async def test_a_static_skill_reaches_nothing_outside(write_skill, path: str) -> None:
    name = f"{uuid4()}.json"  # the folder above is shared with other tests
    skill = write_skill({"assets/data.json": "{}"}, kind="static", config={"dataPath": path.format(name)})
    secret = Path(skill.directory).parent / name
    secret.write_text("{}", encoding="ascii")
    Path(skill.directory, "assets/link.json").symlink_to(secret)
    try:
        with pytest.raises(PathRefused):
            await Executor().run(RunRequest(skill, {}))
    finally:
        secret.unlink()


async def test_a_static_skill_without_a_usable_file_says_so(write_skill) -> None:
    with pytest.raises(NotExecutable, match="dataPath"):
        await Executor().run(RunRequest(write_skill({"x": ""}, kind="static"), {}))
    with pytest.raises(FileMissing):
        await Executor().run(RunRequest(write_skill({"x": ""}, kind="static", config={"dataPath": "y.json"}), {}))
    with pytest.raises(NotExecutable, match="cannot be read"):
        await Executor().run(RunRequest(write_skill({"x": "{"}, kind="static", config={"dataPath": "x"}), {}))
    for depth in (65, 900, 100_000):
        with pytest.raises(NotExecutable, match="levels deep"):
            await Executor().run(
                RunRequest(write_skill({"x": "[" * depth + "]" * depth}, kind="static", config={"dataPath": "x"}), {})
            )


async def test_an_approved_static_skill_gives_only_what_was_approved(write_skill) -> None:
    from skillyard.packages.digest import tree_digest

    skill = write_skill({"assets/data.json": "1"}, kind="static", config={"dataPath": "assets/data.json"})
    approved = tree_digest(skill.directory)
    assert (await Executor().run(RunRequest(skill, {}, digest=approved))).output == 1
    Path(skill.directory, "assets/data.json").write_text("2")
    with pytest.raises(PermissionDenied):
        await Executor().run(RunRequest(skill, {}, digest=approved))
