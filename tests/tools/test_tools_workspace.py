"""Scripts used on a command line, on the files of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.tools import SkillTools

UPPER = "import pathlib, sys\npathlib.Path(sys.argv[2]).write_text(pathlib.Path(sys.argv[1]).read_text().upper())\n"


@pytest.fixture
def upper(skills_root: Path, make_skill: Callable[..., Path]) -> Path:
    return make_skill(skills_root, "upper", files={"scripts/to_upper.py": UPPER, "scripts/other.py": "print(1)"})


@pytest.mark.row("003-11")
async def test_a_script_gets_its_command_line_and_works_on_the_files_of_its_session(
    tools: Callable[..., SkillTools], upper: Path, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "in.txt").write_text("ada")
    made = tools()
    made.work_in("a", str(desk))
    call = {"name": "upper", "entry": "scripts/to_upper", "arguments": ["in.txt", "out.txt"]}
    result = await made.call("run_skill", call, session="a")
    assert result.ok, result.text
    assert result.data["files"] == ["out.txt"]
    assert "Files written:\n- out.txt" in result.text
    assert (desk / "out.txt").read_text() == "ADA"
    other = await made.call("run_skill", call, session="b")
    assert not other.ok, "another conversation has other files"


@pytest.mark.parametrize("arguments", ["in.txt", [1], {"a": 1}])
async def test_arguments_that_are_no_texts_are_refused(
    tools: Callable[..., SkillTools], upper: Path, arguments: object
) -> None:
    result = await tools().call("run_skill", {"name": "upper", "arguments": arguments})
    assert result.code == "invalid_input"
    assert "a list of texts" in result.text


@pytest.mark.parametrize("setting", ["none", "read-only"])
async def test_what_a_skill_declares_about_files_holds(
    tools: Callable[..., SkillTools], skills_root: Path, make_skill: Callable[..., Path], tmp_path: Path, setting: str
) -> None:
    make_skill(
        skills_root,
        "upper",
        front_matter=f"name: upper\ndescription: Upper.\nsecurity:\n  filesystem: {setting}",
        files={"scripts/main.py": "import os\nprint(os.listdir('.'))\nopen('new', 'w')\n"},
    )
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk/in.txt").write_text("ada")
    made = tools()
    made.work_in("a", str(tmp_path / "desk"))
    result = await made.call("run_skill", {"name": "upper"}, session="a")
    assert ("in.txt" in result.text) == (setting == "read-only")
    assert [path.name for path in (tmp_path / "desk").iterdir()] == ["in.txt"]
