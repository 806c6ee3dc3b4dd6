"""The tools of document 004: `skills_list` and `skills_load`, in its shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.tools import SkillTools

Tools = Callable[..., SkillTools]


@pytest.mark.row("004-10", "C-14")
async def test_the_list_has_the_documents_shape(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    make_skill(skills_root, "pdf", front_matter="name: pdf\ndescription: Works with PDF.\nallowed-tools: Read, exec_shell")
    make_skill(skills_root, "broken", front_matter="name: broken")
    result = await tools().call("skills_list")
    expected = {
        "success": True,
        "skills": [
            {"id": "config:pdf", "name": "pdf", "description": "Works with PDF.", "allowedTools": ["Read", "exec_shell"]}
        ],
    }
    assert result.data == expected
    assert json.loads(result.text) == expected


@pytest.mark.row("D-36", "004-10")
async def test_refresh_is_honoured(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    make_skill(skills_root, "one")
    calls = tools()
    make_skill(skills_root, "two")

    async def listed(arguments: dict[str, bool]) -> list[str]:
        answer = json.loads((await calls.call("skills_list", arguments)).text)
        return [skill["name"] for skill in answer["skills"]]

    assert await listed({"refresh": False}) == ["one"]
    assert await listed({"refresh": True}) == ["one", "two"]
    make_skill(skills_root, "three")
    assert await listed({}) == ["one", "three", "two"]


async def test_a_long_list_is_cut_and_says_so(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    for number in range(203):
        make_skill(skills_root, f"skill-{number:03}")
    answer = json.loads((await tools().call("skills_list")).text)
    assert (len(answer["skills"]), answer["omitted"]) == (200, 3)
    assert "search_skills" in answer["hint"]


@pytest.mark.row("004-11", "C-14")
async def test_a_loaded_skill_has_the_documents_shape(tmp_path: Path, make_skill: Any) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    make_skill(project / ".claude/skills", "pdf", front_matter="name: PDF Miner\ndescription: d\nallowed-tools: [read_file]")
    calls = SkillTools(SkillCatalog.discover(cwd=project, home=tmp_path, cache=False))
    for wanted in ("project:pdf-miner", "PDF Miner", "pdf miner", "miner"):
        result = await calls.call("skills_load", {"skill": wanted})
        assert result.data == {
            "success": True,
            "skill": {
                "id": "project:pdf-miner",
                "name": "PDF Miner",
                "description": "d",
                "allowedTools": ["read_file"],
                "directoryPath": ".claude/skills/pdf",
                "skillMdPath": ".claude/skills/pdf/SKILL.md",
            },
            "content": (project / ".claude/skills/pdf/SKILL.md").read_text(),
        }
        assert json.loads(result.text) == result.data


@pytest.mark.row("004-11")
async def test_failures_have_the_documents_words(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    make_skill(skills_root, "pdf")
    calls = tools()
    for arguments, code, message in (
        ({}, "invalid_input", "Missing name"),
        ({"name": " "}, "invalid_input", "Missing name"),
        ({"name": "xyz"}, "skill_not_found", "Skill not found: xyz"),
    ):
        result = await calls.call("skills_load", arguments)
        assert (result.ok, result.code) == (False, code)
        answer = json.loads(result.text)
        assert (answer["success"], answer["error"]) == (False, message)


@pytest.mark.row("C-8", "004-11")
async def test_part_of_a_name_must_fit_one_skill_only(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    make_skill(skills_root, "pdf-read")
    make_skill(skills_root, "pdf-write")
    calls = tools()
    result = await calls.call("skills_load", {"skill": "pdf"})
    assert (result.ok, result.code) == (False, "ambiguous_skill")
    assert json.loads(result.text)["candidates"] == ["config:pdf-read", "config:pdf-write"]
    assert (await calls.call("skills_load", {"skill": "WRITE"})).ok
    hidden = tools(permissions={"pdf-read": "deny"})
    assert (await hidden.call("skills_load", {"skill": "pdf"})).data["success"] is True


async def test_a_file_that_cannot_be_read_is_said_in_the_documents_words(
    skills_root: Path, make_skill: Any, tools: Tools
) -> None:
    folder = make_skill(skills_root, "pdf")
    calls = tools()
    (folder / "SKILL.md").unlink()
    result = await calls.call("skills_load", {"skill": "pdf"})
    assert not result.ok
    assert json.loads(result.text)["success"] is False
