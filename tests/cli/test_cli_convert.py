"""Converting, and asking what other clients make of a skill, at the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_a_skill_is_converted_and_comes_back(call: Call, examples: Path, tmp_path: Path) -> None:
    source = examples / "text-statistics"
    there = call("convert", source, "--to", "semibot", "--out", tmp_path / "there")
    assert there.code == 0
    assert "apexbridge to semibot" in there.out
    back = call("convert", tmp_path / "there", "--to", "apexbridge", "--out", tmp_path / "back", "--json")
    assert back.data["converted"][0]["skills"] == ["text-statistics"]
    assert (tmp_path / "back/text-statistics/SKILL.md").read_bytes() == (source / "SKILL.md").read_bytes()
    again = call("convert", source, "--to", "semibot", "--out", tmp_path / "there", "--json")
    assert (again.code, again.data["error"]["code"]) == (1, "skill_exists")
    assert call("convert", source, "--to", "word").code == 2


def test_what_clients_make_of_a_skill_is_shown_and_decides_the_exit_code(call: Call, tmp_path: Path, make_skill: Call) -> None:
    folder = make_skill(tmp_path, "tidy")
    shown = call("check", folder, "--as", "claude,codex")
    assert shown.code == 0
    assert "codex      loads as tidy:" in shown.out
    (folder / "SKILL.md").write_text("---\nname: tidy\n---\nDo it.\n")
    refused = call("check", folder, "--as", "all", "--json")
    assert refused.code == 1
    loads = {one["client"]: one["loads"] for one in refused.data["skills"][0]["clients"]}
    assert {client for client, loaded in loads.items() if loaded} == {"claude", "copilot", "cline", "openhands"}
    assert len(loads) == 14
    assert "did you mean codex?" in call("check", folder, "--as", "codec").err
    assert call("check", folder, "--as", "codex", "--fix").code == 2


_PUBLISHED = {
    "skill_id": "text-editor",
    "version": "1.0.0",
    "name": "Text Editor",
    "description": "Edit and manipulate text content",
    "trigger_keywords": ["edit", "text", "modify"],
    "author": "Anthropic",
    "homepage": "https://example.com/skills/text-editor",
    "documentation": "https://example.com/skills/text-editor/docs",
    "container": {"skills": [{"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"}]},
}


@pytest.mark.row("002-1", "002-4", "002-8", "002-11", "002-15", "D-33")
def test_a_manifest_alone_is_checked_and_converted_as_the_document_shows(call: Call, project: Path) -> None:
    (project / "manifest.json").write_text(json.dumps(_PUBLISHED))
    checked = call("check", "--package", "manifest.json", "--json").data["packages"][0]
    assert (checked["valid"], checked["errors"]) == (True, [])
    assert checked["compatibility"] == {"anthropic": True, "codex": True, "semibot": True, "issues": []}
    assert call("convert", "manifest.json", "--to", "semibot").code == 0
    semibot = json.loads((project / "converted/text-editor/manifest.json").read_text())
    assert semibot == _PUBLISHED | {
        "anthropic": {"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"},
        "category": "productivity",
        "tags": ["text", "editor"],
    }
    back = call("convert", "converted/text-editor/manifest.json", "--to", "anthropic", "--out", "back", "--json").data
    assert back["converted"][0]["from"] == "semibot"
    assert back["converted"][0]["notes"] == ["left out, because the format has no fields for them: anthropic, category, tags"]
    assert json.loads((project / "back/text-editor/manifest.json").read_text()) == _PUBLISHED
    assert call("convert", "manifest.json", "--to", "semibot").err.startswith("error: converted/text-editor already exists")
    assert call("convert", "manifest.json", "--to", "claude-plugin").code == 1


@pytest.mark.row("002-5", "002-12")
def test_a_manifest_that_breaks_limits_says_all_of_them_and_becomes_nothing(call: Call, project: Path) -> None:
    (project / "wrong.json").write_text(json.dumps(_PUBLISHED | {"version": "one", "skill_id": "../x", "tags": "text"}))
    checked = call("check", "--package", "wrong.json")
    assert checked.code == 1
    (line,) = [line for line in checked.out.splitlines() if line.startswith("error: Manifest validation failed: ")]
    assert all(f"{name}: " in line for name in ("version", "skill_id", "tags"))
    assert call("convert", "wrong.json", "--to", "semibot").code == 1
    assert not list((project / "converted").glob("*"))
    (project / "broken.json").write_text("{")
    assert "error: broken.json cannot be read as JSON" in call("check", "--package", "broken.json").out


_CODEX = """\
---
skill_id: text-editor
version: 1.0.0
name: Text Editor
description: Edit and manipulate text content
trigger_keywords:
  - edit
  - text
  - modify
---

# Text Editor Skill
"""


@pytest.mark.row("002-3", "002-7", "002-9", "002-10", "002-13", "002-14", "002-18", "003-1", "C-1")
def test_a_codex_package_is_checked_converted_and_installed_as_the_document_shows(
    call: Call, project: Path, make_skill: Call
) -> None:
    files = {
        "scripts/main.py": "print('edited')\n",
        "scripts/utils.js": "",
        "scripts/config.yaml": "theme: dark\n",
        "references/api-docs.md": "# API\n",
        "assets/icon.png": "png",
    }
    folder = make_skill(project / "codex", "text-editor", files=files)
    (folder / "SKILL.md").write_text(_CODEX)
    checked = call("check", "--package", folder, "--json").data["packages"][0]
    assert (checked["valid"], checked["warnings"]) == (True, ["Missing recommended file: manifest.json"])
    assert checked["details"]["entryFile"] == "scripts/main.py"
    converted = call("convert", folder, "--to", "semibot", "--json").data["converted"][0]
    assert (converted["from"], converted["skills"]) == ("codex", ["Text Editor"])
    assert json.loads((project / "converted/text-editor/manifest.json").read_text()) == {
        "skill_id": "text-editor",
        "name": "Text Editor",
        "version": "1.0.0",
        "description": "Edit and manipulate text content",
        "trigger_keywords": ["edit", "text", "modify"],
        "entry": "scripts/main.py",
        "category": "productivity",
        "tags": ["text", "editor"],
        "icon_url": "assets/icon.png",
        "config": {"theme": "dark"},
    }
    assert call("check", "--package", "converted/text-editor").code == 0
    installed = call("install", "converted/text-editor", "--json")
    assert installed.code == 0
    (version,) = call("versions", "text-editor", "--json").data["versions"]
    assert (version["declared_version"], version["status"]) == ("1.0.0", "active")
