"""Which script runs, and what is said when none can."""

from __future__ import annotations

import pytest

from skillyard.errors import FileMissing, NotExecutable, PathRefused
from skillyard.execution import Executor
from skillyard.execution.kinds import find_entry


def entry_of(skill, asked: str | None = None) -> str:
    return find_entry(skill, skill.document(), asked)


@pytest.mark.row("000-21", "D-1")
def test_the_declared_entry_comes_first(write_skill) -> None:
    skill = write_skill({"scripts/execute.py": "", "scripts/start.py": ""}, entry="./scripts/start.py")
    assert entry_of(skill) == "scripts/start.py"


@pytest.mark.row("000-3", "000-5")
def test_code_outside_scripts_does_not_run_whoever_names_it(write_skill) -> None:
    skill = write_skill({"scripts/execute.py": "", "bin/start.py": ""}, entry="./bin/start.py")
    with pytest.raises(NotExecutable, match=r"bin/start\.py is not in scripts/") as caught:
        entry_of(skill)
    assert "move it to scripts/" in caught.value.hint
    for requested in ("bin/start.py", "bin.start"):
        with pytest.raises(NotExecutable):
            find_entry(skill, skill.document(), requested)


@pytest.mark.row("000-21")
def test_without_a_declaration_the_conventional_names_are_tried_in_order(write_skill) -> None:
    assert entry_of(write_skill({"scripts/run.sh": "", "scripts/other.py": ""})) == "scripts/run.sh"
    assert entry_of(write_skill({"scripts/index.py": ""})) == "scripts/index.py"
    assert entry_of(write_skill({"scripts/main.py": ""})) == "scripts/main.py"
    assert entry_of(write_skill({"scripts/execute.ts": ""})) == "scripts/execute.ts"
    assert entry_of(write_skill({"scripts/execute.py": ""})) == "scripts/execute.py"


def test_a_single_script_needs_no_name(write_skill) -> None:
    assert (
        entry_of(write_skill({"scripts/recalc.py": "", "scripts/__init__.py": "", "scripts/notes.txt": ""}))
        == "scripts/recalc.py"
    )


def test_several_scripts_without_a_declaration_are_not_guessed(write_skill) -> None:
    with pytest.raises(NotExecutable) as caught:
        entry_of(write_skill({"scripts/a.py": "", "scripts/b.py": ""}))
    assert caught.value.details["candidates"] == ["scripts/a.py", "scripts/b.py"]


@pytest.mark.row("C-4", "D-1")
def test_code_inside_the_document_is_never_run(write_skill) -> None:
    with pytest.raises(NotExecutable, match="is never run") as caught:
        entry_of(write_skill({"SKILL.md": "x"}, fences=("", "typescript")))
    assert "migrate" in str(caught.value.hint)


@pytest.mark.row("C-2")
def test_a_skill_without_scripts_is_a_skill_that_is_read(write_skill) -> None:
    skill = write_skill({"SKILL.md": "x"}, fences=("json",))
    with pytest.raises(NotExecutable, match="no script"):
        entry_of(skill)
    assert not Executor().can_run(skill)


@pytest.mark.row("000-21")
def test_an_entry_that_leaves_the_skill_or_is_absent_is_refused(write_skill) -> None:
    with pytest.raises(PathRefused):
        entry_of(write_skill({"SKILL.md": "x"}, entry="../other/main.py"))
    with pytest.raises(FileMissing):
        entry_of(write_skill({"SKILL.md": "x"}, entry="./scripts/absent.py"))


def test_whether_a_skill_can_run_is_known_without_reading_it_where_possible(write_skill) -> None:
    class Unread:
        id, kind, has_entry = "x", "direct", False

        def __init__(self, directory: str) -> None:
            self.directory = directory

        def document(self) -> object:
            raise AssertionError("it was read")

    skill = write_skill({"SKILL.md": "x"})
    assert not Executor().can_run(Unread(skill.directory))
    write_skill({"scripts/main.py": ""})
    assert Executor().can_run(Unread(skill.directory))
