"""Manifests: the worked example as shown, the limits, all problems at once, and inference that is the same every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import FileMissing, InvalidManifest
from skillyard.interop import (
    SHARED_FIELDS,
    check_package,
    convert,
    convert_anthropic_to_codex,
    convert_anthropic_to_semibot,
    convert_codex_to_anthropic,
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
    infer_category,
    infer_entry,
    infer_tags,
    manifest_problems,
    manifest_version,
    read_anthropic_manifest,
    read_catalog,
    validate_manifest,
)

SMALL: dict[str, object] = {"skill_id": "a", "name": "A", "version": "1.0.0"}
CONTAINER = {"skills": [{"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"}]}
ANTHROPIC = {
    "skill_id": "text-editor",
    "version": "1.0.0",
    "name": "Text Editor",
    "description": "Edit and manipulate text content",
    "trigger_keywords": ["edit", "text", "modify"],
    "container": CONTAINER,
}
SEMIBOT = {
    "skill_id": "text-editor",
    "version": "1.0.0",
    "name": "Text Editor",
    "description": "Edit and manipulate text content",
    "trigger_keywords": ["edit", "text", "modify"],
    "anthropic": {"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"},
    "container": CONTAINER,
    "category": "productivity",
    "tags": ["text", "editor"],
}


@pytest.mark.row("002-8", "D-33")
def test_the_worked_example_gives_exactly_the_object_shown() -> None:
    converted = convert_anthropic_to_semibot(ANTHROPIC)
    assert converted == SEMIBOT
    assert validate_manifest(converted) == SEMIBOT


@pytest.mark.row("002-11", "002-7")
def test_the_worked_example_goes_back_to_what_it_was() -> None:
    assert convert_semibot_to_anthropic(SEMIBOT) == ANTHROPIC
    without = {key: value for key, value in SEMIBOT.items() if key not in ("container", "anthropic")}
    skills = [{"type": "custom", "skill_id": "text-editor", "version": "1.0.0"}]
    assert convert_semibot_to_anthropic(without)["container"] == {"skills": skills}


_words = st.text(min_size=1, max_size=30)


@pytest.mark.row("002-8", "002-11")
@given(st.fixed_dictionaries({"skill_id": _words, "name": _words, "version": _words}, optional={"author": _words}))
def test_the_shared_fields_of_any_manifest_come_back(manifest: dict[str, Any]) -> None:
    back = convert_semibot_to_anthropic(convert_anthropic_to_semibot(manifest | {"container": {"skills": []}}))
    assert back == manifest | {"container": {"skills": []}}
    assert convert_anthropic_to_codex(manifest) == manifest
    assert set(convert_semibot_to_codex(manifest)) <= set(SHARED_FIELDS)


@pytest.mark.row("002-9", "002-7", "D-33", "C-18", "C-1")
def test_a_codex_folder_loses_no_field_and_its_manifest_counts_first(tmp_path: Path, make_skill: Any) -> None:
    front = "skill_id: x\nversion: 1.10.0\nname: Old\ndescription: Edit text\nlicense: MIT\ntools:\n  - {name: t, type: mcp}"
    files = {
        "manifest.json": '{"name": "New", "repository": "https://a.example/r"}',
        "assets/icon.png": "",
        "scripts/main.py": "",
    }
    folder = make_skill(tmp_path, "x", front_matter=front, files=files | {"scripts/config.yaml": "depth: 3\n"})
    manifest = convert_codex_to_semibot(folder)
    assert validate_manifest(manifest) == {
        "skill_id": "x",
        "name": "New",
        "version": "1.10.0",
        "description": "Edit text",
        "entry": "scripts/main.py",
        "category": "productivity",
        "tags": ["x"],
        "license": "MIT",
        "repository": "https://a.example/r",
        "icon_url": "assets/icon.png",
        "tools": [{"name": "t", "type": "mcp"}],
        "config": {"depth": 3},
    }
    assert convert_codex_to_anthropic(folder)["name"] == "New"
    (folder / "SKILL.md").unlink()
    with pytest.raises(FileMissing):
        convert_codex_to_semibot(folder)


@pytest.mark.row("002-9", "003-1")
def test_skill_md_counts_in_what_is_made_of_a_skill_and_differences_are_named(tmp_path: Path, make_skill: Any) -> None:
    front = "name: tidy\ndescription: Tidies up. Use in a test.\nversion: 1.2.0\nlicense: MIT"
    manifest = '{"skill_id": "tidy", "name": "tidy", "version": "1.0.0", "description": "Other.", "author": "Ada"}'
    folder = make_skill(tmp_path, "tidy", front_matter=front, files={"manifest.json": manifest})
    said = [
        "manifest.json says version '1.0.0', SKILL.md says '1.2.0': SKILL.md counts",
        "manifest.json says description 'Other.', SKILL.md says 'Tidies up. Use in a test.': SKILL.md counts",
    ]
    check = check_package(folder)
    assert [warning for warning in check.structure.warnings if "says" in warning] == said
    assert (check.manifest["version"], check.manifest["author"]) == ("1.2.0", "Ada")
    (converted,) = convert(folder, tmp_path / "made", to="semibot")
    assert [note for note in converted.notes if "says" in note] == said
    made = json.loads((tmp_path / "made/tidy/manifest.json").read_text())
    assert (made["version"], made["description"], made["author"]) == ("1.2.0", "Tidies up. Use in a test.", "Ada")


@pytest.mark.row("002-10")
def test_the_entry_is_the_first_name_of_the_list_that_is_there(tmp_path: Path) -> None:
    assert infer_entry(tmp_path) is None
    (tmp_path / "scripts").mkdir()
    for name in ("run.py", "index.ts", "index.py", "main.ts", "main.py"):
        (tmp_path / "scripts" / name).touch()
        assert infer_entry(tmp_path) == f"scripts/{name}"


@pytest.mark.row("002-5", "002-12", "002-4")
def test_all_problems_of_a_manifest_are_reported_at_once() -> None:
    with pytest.raises(InvalidManifest) as raised:
        validate_manifest({"skill_id": "a b", "version": "1.0", "tags": ["x" * 31], "homepage": "nowhere", "license": "l" * 51})
    assert raised.value.message.startswith("Manifest validation failed: name: is required; ")
    problems = raised.value.details["problems"]
    assert isinstance(problems, list)
    assert [found["path"] for found in problems] == ["name", "skill_id", "version", "license", "tags.0", "homepage"]


@pytest.mark.row("002-5")
@pytest.mark.parametrize(("name", "limit"), [("name", 100), ("description", 1000), ("author", 100), ("category", 50)])
def test_a_text_may_be_as_long_as_its_limit_and_no_longer(name: str, limit: int) -> None:
    assert manifest_problems(SMALL | {name: "x" * limit}) == []
    assert [found.path for found in manifest_problems(SMALL | {name: "x" * (limit + 1)})] == [name]


@pytest.mark.row("002-5", "D-3")
@pytest.mark.parametrize("skill_id", ["../../etc", "/abs", "..", "a//b", "a/./b", "a b"])
def test_an_id_that_is_a_path_is_refused(skill_id: str) -> None:
    assert [found.path for found in manifest_problems(SMALL | {"skill_id": skill_id})] == ["skill_id"]


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_any_data_is_judged_and_never_raises_anything_else(data: object) -> None:
    for value in (data, SMALL | dict.fromkeys(("tools", "tags", "config", "anthropic", "container", "entry"), data)):
        assert all(found.message for found in manifest_problems(value))


@pytest.mark.row("C-5")
def test_a_version_for_a_manifest_is_the_declared_one_or_made_of_the_install_version() -> None:
    assert manifest_version("2.1.0-beta.1", "20260115-143022") == "2.1.0-beta.1"
    assert manifest_version(None, "20260115-143022") == "0.0.0-20260115.143022"
    assert manifest_version("latest") == "0.0.0"


@pytest.mark.row("D-33")
def test_inference_says_nothing_where_there_is_nothing_to_go_by() -> None:
    assert infer_category({"name": "Zzz"}) is None
    assert infer_tags({"name": "the skill"}) == []
    assert infer_category({"name": "天气查询"}) == "utilities"
    assert infer_tags({"skill_id": "acme/pdf-tools"}) == ["pdf"]


@pytest.mark.row("002-1")
def test_a_manifest_is_read_from_json_or_markdown_with_what_stands_in() -> None:
    reported = read_anthropic_manifest(json.dumps({"id": "x", "keywords": ["k"] * 30, "own": 1}).encode())
    assert reported == {"skill_id": "x", "version": "latest", "name": "x", "trigger_keywords": ["k"] * 20, "own": 1}
    assert read_anthropic_manifest(b"---\nname: notes\nversion: 1.10\n---\n")["skill_id"] == "notes"
    for wrong in (b"{}", b"[1]", b"{", b"no front matter"):
        with pytest.raises(InvalidManifest):
            read_anthropic_manifest(wrong)


@pytest.mark.row("002-2")
@pytest.mark.parametrize("key", ["skills", "items", "data", None])
def test_a_catalog_is_read_once_each_by_name_with_whole_addresses(key: str | None) -> None:
    items = [
        {"id": "b", "title": "Beta", "manifest_url": "b/manifest.json"},
        {"skill_id": "a", "name": "alpha", "manifest_url": "javascript:x"},
        {"id": "b", "name": "again"},
        {"name": "no id"},
        7,
    ]
    catalog = read_catalog(json.dumps(items if key is None else {key: items}).encode(), "https://h.example/c/index.json")
    assert [entry.to_dict() for entry in catalog] == [
        {"skill_id": "a", "name": "alpha"},
        {"skill_id": "b", "name": "Beta", "manifest_url": "https://h.example/c/b/manifest.json"},
    ]
    with pytest.raises(InvalidManifest):
        read_catalog(b'{"none": 1}', "https://h.example")
