"""What names a folder of the machine is shown to an organisation with the folder's alias."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.catalog.skill_catalog import replace_folders
from skillyard.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/data/skills/pdf is gone", "~/skills/pdf is gone"),
        ("look at /srv/data, or /srv/database", "look at ~, or srv/database"),
        ("/srv/data-old and /srv/data_old stay", "srv/data-old and srv/data_old stay"),
        ("'/srv/project'", "'project'"),
        ("no folder", "no folder"),
    ],
)
def test_a_folder_is_replaced_whole_and_the_longest_first(text: str, shown: str) -> None:
    assert replace_folders(text, {"/srv/data": "~", "/srv": "srv", "/srv/project/": "project", "/": "root"}) == shown


def test_an_organisation_sees_aliases_and_the_machine_s_user_paths(home: Path, make_skill: object) -> None:
    project, data = home / "project", home / "data/organisations/acme"
    make_skill(project / ".claude/skills", "shared")  # type: ignore[operator] # the fixture makes one
    make_skill(data / ".claude/skills", "shared")  # type: ignore[operator]
    make_skill(data / ".claude/skills", "own")  # type: ignore[operator]
    own = SkillCatalog.discover(cwd=project, home=home, environ={"HOME": str(home), "SKILLYARD_BUILT_IN": "off"})
    theirs = own.for_organisation(str(data), "sqlite://")
    assert [skill.location for skill in theirs] == ["project/shared", "~/.claude/skills/own"]
    assert [skill.location for skill in own] == [str(project / ".claude/skills/shared")]
    assert [skill.reason for skill in theirs.all() if skill.reason] == [
        "project:shared in project/shared has the same name and comes first"
    ]
    assert str(home) not in theirs.to_json()
    error = InvalidInput(f"{data}/x is odd", hint=f"see {project}", paths=[f"{home}/y", {"a": str(data)}], number=3)
    assert error.with_texts(own.with_aliases).to_dict() == error.to_dict()
    assert error.with_texts(theirs.with_aliases).to_dict() == {
        "code": "invalid_input", "message": "~/x is odd", "hint": "see project", "paths": ["home/y", {"a": "~"}], "number": 3,
    }  # fmt: skip
