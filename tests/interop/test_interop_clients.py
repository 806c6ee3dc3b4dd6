"""What other clients make of a skill: whether they load it, as what, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.errors import InvalidInput
from skillyard.interop import CLIENTS, ClientCompatibility, check_clients

EVERY = frozenset(CLIENTS)
STRICT = frozenset({"copilot", "cline", "continue", "pi", "vibe", "openhands", "cursor", "api"})


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
        ("name: pdf\n", {*EVERY} - {"claude", "copilot", "cline", "openhands"}, "description"),
        ("description: Fills.\n", {"gemini", "opencode", "qwen", "continue", "kilo", "vibe", "cursor", "api"}, "name"),
        ("name: PDF Forms\ndescription: Fills.\n", {"qwen", "vibe", "openhands", "cursor", "api"}, "small letters"),
        ("name: 表单\ndescription: Fills.\n", {"copilot", "vibe", "openhands", "cursor", "api"}, "Latin letters"),
        ("name: forms\ndescription: Fills.\n", {"openhands", "cursor", "api"}, "folder"),
        ("name: pdf\ndescription: Use when: asked\n", {*STRICT}, "proper YAML"),
        (f"name: pdf\ndescription: {'x' * 1100}\n", {"copilot", "vibe", "api"}, "1024"),
        (f"name: {'n' * 70}\ndescription: Fills.\n", {"codex", "copilot", "vibe", "openhands", "cursor", "api"}, "at most 64"),
        ("name: pdf\ndescription: Fills.\nversion: 1.0.0\n", {"api"}, "does not know"),
        ("name: pdf\ndescription: Fills.\ntriggers:\n  phrases: [fill]\n", {"openhands", "api"}, "triggers must be a list"),
        ("name: pdf\ndescription: Fills.\ncompatibility: [linux]\n", {"vibe", "openhands"}, "compatibility must be one text"),
        ("name: pdf\ndescription: Fills <b>all</b>.\n", {"api"}, "tags"),
    ],
)
def test_each_client_refuses_what_its_rules_refuse(tmp_path: Path, header: str, refusing: set[str], why: str) -> None:
    found = _check(tmp_path, header)
    assert {name for name, one in found.items() if not one.loads} == refusing
    assert any(why in problem for one in found.values() for problem in one.problems)


def test_of_what_cannot_be_read_some_recover_lines_and_one_shows_the_title(tmp_path: Path) -> None:
    found = _check(tmp_path, 'name: pdf\ndescription: "Fills\n', body="# Forms\n\nFirst words.\n")
    assert (found["claude"].loads, found["claude"].description) == (True, "Forms")
    assert {name for name, one in found.items() if any("not proper YAML;" in problem for problem in one.problems)} == {
        "codex", "opencode", "kilo", *STRICT,
    }  # fmt: skip


def test_a_reserved_word_in_the_name_keeps_a_skill_out_of_the_api(tmp_path: Path) -> None:
    found = _check(tmp_path, "name: claude-pdf\ndescription: Fills.\n", folder="claude-pdf")
    assert found["api"].problems == ("the name may not contain 'claude'",)


def test_what_a_client_shows_is_what_it_cuts_or_recovers(tmp_path: Path) -> None:
    found = _check(tmp_path, f"name: a b/c\ndescription: {'x' * 2000}\ndisable-model-invocation: true\n")
    assert (len(found["claude"].description), len(found["codex"].description), len(found["pi"].description)) == (
        1536,
        1024,
        2000,
    )
    shown = {name: one.name for name, one in found.items()}
    assert (shown["claude"], shown["codex"], shown["gemini"], shown["copilot"]) == ("pdf", "a b/c", "a b-c", "a-b/c")
    assert {name for name, one in found.items() if any("only the user" in note for note in one.notes)} == {
        "claude", "qwen", "copilot", "pi", "vibe",
    }  # fmt: skip
    bare = _check(tmp_path, "", folder="bare", body="# Title\n\nFirst words.\n")
    assert (bare["claude"].loads, bare["claude"].name, bare["claude"].description) == (True, "bare", "Title")
    assert (bare["copilot"].loads, bare["copilot"].description) == (True, "First words.")


def test_without_a_skill_there_is_nothing_to_ask_about(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        check_clients(tmp_path)
