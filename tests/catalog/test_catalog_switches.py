"""A skill is switched off where it is: the namesake in another project, or below another root, goes on as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog


@pytest.fixture
def projects(tmp_path: Path, make_skill: Any) -> tuple[Path, Path]:
    """Two projects, each with a skill `deploy` of its own."""
    made = tmp_path / "one", tmp_path / "it's two"
    for folder in made:
        (folder / ".git").mkdir(parents=True)
        make_skill(folder / ".claude/skills", "deploy")
    return made


def _status(project: Path, name: str = "deploy") -> str:
    return SkillCatalog.discover(cwd=project).get(name).status


def test_a_skill_of_one_project_is_switched_off_there_alone(projects: tuple[Path, Path], home: Path) -> None:
    one, two = projects
    off = SkillCatalog.discover(cwd=one).disable("deploy")
    assert off.status == "disabled"
    assert f"{one}/.claude/skills" in (off.reason or "")
    assert (_status(one), _status(two)) == ("disabled", "ok")
    SkillCatalog.discover(cwd=two).disable("deploy")
    SkillCatalog.discover(cwd=one).enable("deploy")
    assert (_status(one), _status(two)) == ("ok", "disabled")


def test_a_named_root_and_the_project_that_it_is_of_are_one_place(projects: tuple[Path, Path], home: Path) -> None:
    one, _ = projects
    SkillCatalog.discover(cwd=one).disable("deploy")
    roots = [project / ".claude/skills" for project in projects]
    assert SkillCatalog.discover(roots=roots[:1]).get("deploy").status == "disabled"
    assert SkillCatalog.discover(roots=roots[1:]).get("deploy").status == "ok"
    assert SkillCatalog.discover(roots=roots[:1]).enable("deploy").status == "ok"
    assert _status(one) == "ok"


def test_a_link_to_a_project_leads_to_the_same_switch(projects: tuple[Path, Path], home: Path, tmp_path: Path) -> None:
    one, _ = projects
    (tmp_path / "link").symlink_to(one)
    SkillCatalog.discover(cwd=tmp_path / "link").disable("deploy")
    assert _status(one) == "disabled"


def test_an_entry_of_an_older_version_holds_in_every_project_until_one_switches_it_on(
    projects: tuple[Path, Path], home: Path
) -> None:
    one, two = projects
    file = home / "skillyard/settings.json"
    file.parent.mkdir()
    file.write_text('{"skills": {"project:deploy": {"enabled": false, "note": 1}}}')
    assert (_status(one), _status(two)) == ("disabled", "disabled")
    SkillCatalog.discover(cwd=one).enable("deploy")
    assert (_status(one), _status(two)) == ("ok", "disabled")
    assert json.loads(file.read_text())["skills"]["project:deploy"] == {"enabled": False, "note": 1}
    SkillCatalog.discover(cwd=one).disable("deploy")
    assert _status(one) == "disabled"


def test_what_is_switched_off_can_be_listed_with_its_place(projects: tuple[Path, Path], home: Path, make_skill: Any) -> None:
    from skillyard.catalog import load_settings

    one, _ = projects
    make_skill(home / ".claude/skills", "pdf")
    catalog = SkillCatalog.discover(cwd=one)
    for name in ("deploy", "pdf"):
        catalog.disable(name)
    switches = load_settings(catalog.data_directory).switched_off()
    assert [(switch.skill, switch.root) for switch in switches] == [("deploy", f"{one}/.claude/skills"), ("user:pdf", None)]
    assert switches[1].command == "skillyard enable user:pdf"
