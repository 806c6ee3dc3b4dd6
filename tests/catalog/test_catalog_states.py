"""What a user wants of a skill: five states, and sets of skills for a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.errors import InvalidInput, SkillNotFound
from skillyard.prompt import IndexOptions, build_index
from skillyard.tools import SkillTools


@pytest.fixture
def project(home: Path, tmp_path: Path, make_skill: Any) -> Path:
    """A project with a skill and a set, and three skills of the user beside a plugin's."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    make_skill(folder / ".claude/skills", "local")
    for name in ("alpha", "beta", "gamma"):
        make_skill(home / ".claude/skills", name)
    make_skill(home / ".claude/plugins/cache/market/tool/1.0.0/skills", "plugged")
    (folder / "skillyard.toml").write_text(
        '[skills]\nbuilt-in = false\n[sets]\nsmall = ["alpha", "project:local", "nowhere"]\n'
    )
    return folder


def discover(project: Path) -> SkillCatalog:
    return SkillCatalog.discover(cwd=project, cache=False)


def listed(catalog: SkillCatalog, budget: int | None = None) -> list[str]:
    index = build_index(catalog.all(), IndexOptions(budget=budget))
    return [line.id.partition(":")[2] for line in index.lines]


async def test_each_state_is_obeyed_by_the_index_and_the_tools(project: Path) -> None:
    catalog = discover(project)
    states = {"gamma": "pinned", "alpha": "name-only", "beta": "manual", "local": "off"}
    for name, state in states.items():
        assert catalog.set_state(name, state).state == state  # type: ignore[arg-type]
    catalog = discover(project)
    index = build_index(catalog.all())
    assert "- alpha\n" in f"{index.text}\n"
    assert "beta" not in index.text
    assert "local" not in index.text
    assert listed(catalog, budget=index.tokens - 10)[0] == "gamma"
    tools = SkillTools(catalog, run_skills=False, record=False)
    assert (await tools.call("skill", {"skill": "alpha"})).ok
    kept = await tools.call("skill", {"skill": "beta"})
    assert (kept.ok, kept.code) == (False, "skill_unusable")
    found = await tools.call("search_skills", {"query": "alpha beta gamma local"})
    assert "alpha" in found.text
    assert "beta" not in found.text.replace("alpha beta gamma local", "")
    assert [skill["state"] for skill in json.loads(catalog.to_json())["skills"]] == [skill.state for skill in catalog.all()]


def test_a_plugin_s_skill_has_states_and_one_that_is_on_again_is_automatic(project: Path) -> None:
    catalog = discover(project)
    assert catalog.set_state("plugin:plugged", "pinned").state == "pinned"
    assert catalog.disable("plugin:plugged").state == "off"
    assert catalog.enable("plugin:plugged").state == "pinned"
    assert catalog.set_state("plugin:plugged", "off").status == "disabled"
    assert catalog.enable("plugin:plugged").state == "automatic"
    with pytest.raises(InvalidInput, match="no state"):
        catalog.set_state("plugin:plugged", "loud")  # type: ignore[arg-type]


def test_a_set_leaves_its_skills_in_this_project_only(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = discover(project)
    catalog.use_set("small")
    assert (catalog.chosen_set, listed(discover(project))) == ("small", ["local", "alpha"])
    assert "use --none" in str(catalog.get("beta").reason)
    (tmp_path / "elsewhere").mkdir()
    assert "beta" in listed(discover(tmp_path / "elsewhere"))
    catalog.use_set(None)
    assert "beta" in listed(catalog)
    monkeypatch.setenv("SKILLYARD_SET", "small")
    assert listed(discover(project)) == ["local", "alpha"]
    with pytest.raises(SkillNotFound, match="no set of skills 'smal'"):
        catalog.use_set("smal")


def test_a_set_that_is_gone_leaves_every_skill(project: Path) -> None:
    discover(project).use_set("small")
    (project / "skillyard.toml").unlink()
    assert "beta" in listed(discover(project))
