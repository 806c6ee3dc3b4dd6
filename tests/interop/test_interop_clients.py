"""What other clients make of a skill: whether they load it, as what, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.errors import InvalidInput
from skillyard.interop import CLIENTS, ClientCompatibility, check_clients


def _check(tmp_path: Path, header: str, *, folder: str = "pdf", body: str = "Do it.\n") -> dict[str, ClientCompatibility]:
    place = tmp_path / folder
    place.mkdir()
    (place / "SKILL.md").write_text(f"---\n{header}---\n{body}", "utf-8")
    return {one.client: one for one in check_clients(place)}


def test_a_proper_skill_loads_everywhere(tmp_path: Path) -> None:
    found = _check(tmp_path, "name: pdf\ndescription: Fills forms.\nlicense: MIT\n")
    assert set(found) == set(CLIENTS)
    assert all(one.loads and (one.name, one.description) == ("pdf", "Fills forms.") for one in found.values())


@pytest.mark.parametrize(
    ("header", "refusing", "why"),
    [
        ("name: pdf\n", {"codex", "gemini", "opencode", "api"}, "description"),
        ("description: Fills.\n", {"gemini", "opencode", "api"}, "name"),
        ("name: PDF Forms\ndescription: Fills.\n", {"opencode", "api"}, "small letters"),
        ("name: forms\ndescription: Fills.\n", {"opencode", "api"}, "folder"),
        ("name: pdf\ndescription: Use when: asked\n", {"codex", "opencode", "api"}, "proper YAML"),
        (f"name: pdf\ndescription: {'x' * 1100}\n", {"codex", "opencode", "api"}, "1024"),
        ("name: pdf\ndescription: Fills.\nversion: 1.0.0\n", {"api"}, "does not know"),
        ("name: pdf\ndescription: Fills <b>all</b>.\n", {"api"}, "tags"),
    ],
)
def test_each_client_refuses_what_its_rules_refuse(tmp_path: Path, header: str, refusing: set[str], why: str) -> None:
    found = _check(tmp_path, header)
    assert {name for name, one in found.items() if not one.loads} == refusing
    assert any(why in problem for one in found.values() for problem in one.problems)


def test_a_reserved_word_in_the_name_keeps_a_skill_out_of_the_api(tmp_path: Path) -> None:
    found = _check(tmp_path, "name: claude-pdf\ndescription: Fills.\n", folder="claude-pdf")
    assert found["api"].problems == ("the name may not contain 'claude'",)


def test_what_a_client_shows_is_what_it_cuts_or_recovers(tmp_path: Path) -> None:
    found = _check(tmp_path, f"name: a/b\ndescription: {'x' * 2000}\ndisable-model-invocation: true\n")
    assert len(found["claude"].description) <= 1536
    assert found["gemini"].name == "a-b"
    assert any("only the user" in note for note in found["claude"].notes)
    bare = _check(tmp_path, "", folder="bare", body="# Title\n\nFirst words.\n")
    assert (bare["claude"].loads, bare["claude"].name, bare["claude"].description) == (True, "bare", "First words.")


def test_without_a_skill_there_is_nothing_to_ask_about(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        check_clients(tmp_path)
