"""Every format into every other and back gives the same bytes; what a format cannot hold is kept aside and reported."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import new_document, parse_document, read_front_matter
from skillyard.errors import InvalidInput, InvalidManifest, LinkNotAllowed, NoSkillInside, SkillExists
from skillyard.interop import FORMATS, ORIGINALS_FILE, convert, validate_manifest
from skillyard.interop.skill_formats import SKILL_FORMATS
from skillyard.packages import pack, tree_digest

SKILL = """---
# a comment that counts
name: Text Editor
description: >-
  Edits text. Use when someone wants to change a document.
version: 2.1.0
license: MIT
keywords: [edit, text]
input_schema: {type: object}
x-own: {deep: [1, two]}
---
# Editing

Do it.
"""
SEMIBOT = {
    "skill_id": "acme/text-editor", "name": "Text Editor", "version": "2.1.0", "description": "Edits text.",
    "trigger_keywords": ["edit"], "category": "productivity", "tags": ["text"], "entry": "scripts/main.py",
    "tools": [{"name": "open", "type": "function"}], "x_own": 1,
}  # fmt: skip


def _skill(folder: Path, text: str = SKILL, manifest: object = None) -> Path:
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, "utf-8")
    (folder / "scripts/main.py").write_text("print(1)\n")
    (folder / "scripts/main.py").chmod(0o755)
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _there(source: Path, out: Path, to: str) -> Path:
    (done,) = convert(source, out, to)  # type: ignore[arg-type]
    return done.path


@pytest.mark.row("D-33")
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("manifest", [None, SEMIBOT], ids=["skill", "semibot"])
def test_there_and_back_is_the_same_tree(tmp_path: Path, to: str, manifest: object) -> None:
    source = _skill(tmp_path / "text-editor", manifest=manifest)
    first = "semibot" if manifest else "agent-skills"
    back = _there(_there(source, tmp_path / "there", to), tmp_path / "back", first)
    assert tree_digest(back) == tree_digest(source)


@pytest.mark.parametrize("way", list(itertools.permutations(SKILL_FORMATS[1:], 2)), ids="-".join)
def test_a_way_through_two_formats_ends_where_it_began(tmp_path: Path, way: tuple[str, ...]) -> None:
    source = here = _skill(tmp_path / "text-editor")
    for number, to in enumerate((*way, "agent-skills")):
        here = _there(here, tmp_path / str(number), to)
    assert tree_digest(here) == tree_digest(source)


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=40)
_NAMES = st.from_regex(r"[a-z]{1,8}(_[a-z]{1,8})?", fullmatch=True)


@given(
    extra=st.dictionaries(_NAMES, st.one_of(_TEXT, st.integers(-5, 5), st.lists(_TEXT, max_size=3)), max_size=4),
    body=st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=60),
    to=st.sampled_from(FORMATS),
)
def test_any_skill_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, extra: dict[str, object], body: str, to: str
) -> None:
    root = tmp_path_factory.mktemp("any")
    fields = {name: value for name, value in extra.items() if name not in ("name", "description")}
    source = root / "any-skill"
    source.mkdir()
    text = new_document("any-skill", "Any. Use when testing.", body, extra=fields)
    (source / "SKILL.md").write_bytes(text.encode())
    try:
        there = _there(source, root / "there", to)
    except InvalidManifest:  # a field that only looks like one of a manifest
        return
    assert tree_digest(_there(there, root / "back", "agent-skills")) == tree_digest(source) or "type" in fields


@pytest.mark.row("002-8", "002-11")
def test_an_anthropic_package_has_the_fields_of_the_specification_and_a_valid_manifest(tmp_path: Path) -> None:
    (done,) = convert(_skill(tmp_path / "text-editor"), tmp_path / "out", "anthropic")
    document = parse_document((done.path / "SKILL.md").read_bytes())
    assert set(document.front_matter) == {"name", "description", "license"}
    assert document.metadata.name == "text-editor"
    manifest = json.loads((done.path / "manifest.json").read_text())
    assert manifest["container"] == {"skills": [{"type": "custom", "skill_id": "text-editor", "version": "2.1.0"}]}
    assert any("no fields for" in note and "x-own" in note for note in done.notes)
    assert any("is written as" in note for note in done.notes)


@pytest.mark.row("002-3", "002-7", "002-9")
def test_codex_and_semibot_packages_say_the_same_in_both_files(tmp_path: Path) -> None:
    source = _skill(tmp_path / "text-editor")
    for to in ("codex", "semibot"):
        there = _there(source, tmp_path / to, to)
        texts = read_front_matter((there / "SKILL.md").read_bytes()).texts
        manifest = validate_manifest(json.loads((there / "manifest.json").read_text()))
        assert texts["skill_id"] == manifest["skill_id"] == "text-editor"
        assert texts["trigger_keywords"] == manifest["trigger_keywords"] == ["edit", "text"]
        assert "# a comment that counts" in (there / "SKILL.md").read_text()
    assert manifest["entry"] == "scripts/main.py"
    assert (manifest["category"], manifest["license"]) == ("productivity", "MIT")


def test_apexbridge_has_every_field_of_its_document(tmp_path: Path) -> None:
    there = _there(_skill(tmp_path / "text-editor"), tmp_path / "out", "apexbridge")
    fields = read_front_matter((there / "SKILL.md").read_bytes()).values
    assert {"type", "domain", "triggers", "input_schema", "output_schema", "security", "resources"} <= fields.keys()
    assert fields["resources"] == {"entry": "./scripts/main.py"}
    assert fields["x-own"] == {"deep": [1, "two"]}


def test_a_plugin_and_a_marketplace_hold_all_skills_and_come_back(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    for name in ("one", "two"):
        _skill(root / name, SKILL.replace("Text Editor", name))
    (plugin,) = convert(root, tmp_path / "plugin", "claude-plugin")
    assert plugin.skills == ("one", "two")
    assert json.loads((plugin.path / ".claude-plugin/plugin.json").read_text())["name"] == "mine"
    (market,) = convert(root, tmp_path / "market", "claude-marketplace")
    listed = json.loads((market.path / ".claude-plugin/marketplace.json").read_text())
    assert listed["plugins"][0]["skills"] == ["./skills/one", "./skills/two"]
    assert (listed["plugins"][0]["strict"], listed["owner"]["name"]) == (False, "mine")
    back = convert(plugin.path, tmp_path / "back", "agent-skills")
    for one in back:
        assert not (one.path / ORIGINALS_FILE).exists()
        assert tree_digest(one.path) == tree_digest(root / one.path.name)


def test_a_plugin_with_more_than_skills_comes_back_whole(tmp_path: Path) -> None:
    plugin = tmp_path / "office"
    _skill(plugin / "document-skills/pdf", SKILL.replace("Text Editor", "pdf"))
    for path, text in {
        ".claude-plugin/plugin.json": '{"name": "office",\n "x": 1}', "commands/fix.md": "Fix it.\n", "README.md": "Hi\n"
    }.items():  # fmt: skip
        (plugin / path).parent.mkdir(parents=True, exist_ok=True)
        (plugin / path).write_text(text)
    there = _there(plugin, tmp_path / "there", "codex")
    back = _there(there, tmp_path / "back", "claude-plugin")
    assert tree_digest(back) == tree_digest(plugin)


def test_an_edit_in_between_is_kept_and_the_rest_comes_back(tmp_path: Path) -> None:
    there = _there(_skill(tmp_path / "text-editor"), tmp_path / "there", "anthropic")
    text = (there / "SKILL.md").read_text().replace("Edits text.", "Edits prose.")
    (there / "SKILL.md").write_text(text)
    (done,) = convert(there, tmp_path / "back", "agent-skills")
    fields = read_front_matter((done.path / "SKILL.md").read_bytes()).values
    assert str(fields["description"]).startswith("Edits prose.")
    assert fields["x-own"] == {"deep": [1, "two"]}
    assert fields["input_schema"] == {"type": "object"}
    assert any("was changed after" in note for note in done.notes)


@pytest.mark.row("002-5", "D-20")
def test_what_is_too_long_for_a_manifest_is_cut_and_reported(tmp_path: Path) -> None:
    words = ", ".join(f"word-{number}" for number in range(30))
    source = _skill(tmp_path / "long", f"---\nname: long\ndescription: {'d' * 1020}\nversion: one\nkeywords: [{words}]\n---\n")
    (done,) = convert(source, tmp_path / "out", "semibot")
    manifest = validate_manifest(json.loads((done.path / "manifest.json").read_text()))
    assert (len(manifest["trigger_keywords"]), manifest["version"]) == (20, "0.0.0")  # type: ignore[arg-type]
    assert len(done.notes) == 3
    assert tree_digest(_there(done.path, tmp_path / "back", "agent-skills")) == tree_digest(source)


def test_an_archive_is_read_and_nothing_is_overwritten_unless_wanted(tmp_path: Path) -> None:
    source = _skill(tmp_path / "text-editor")
    archive = pack(source, tmp_path / "a.zip").path
    there = _there(archive, tmp_path / "out", "codex")
    with pytest.raises(SkillExists):
        convert(archive, tmp_path / "out", "codex")
    (there / "mine.txt").write_text("x")
    convert(archive, tmp_path / "out", "codex", force=True)
    assert not (there / "mine.txt").exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["text-editor"]


def test_what_cannot_be_converted_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no"):
        convert(tmp_path / "nowhere", tmp_path / "out", "codex")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoSkillInside):
        convert(tmp_path / "empty", tmp_path / "out", "codex")
    linked = _skill(tmp_path / "linked")
    (linked / "secret").symlink_to("/etc/passwd")
    with pytest.raises(LinkNotAllowed):
        convert(linked, tmp_path / "out", "codex")
    broken = _skill(tmp_path / "broken")
    (broken / ORIGINALS_FILE).write_text(json.dumps(_carried(written={"../../evil": "1"})))
    with pytest.raises(Exception, match=r"evil|understood"):
        convert(broken, tmp_path / "out", "codex")
    assert list((tmp_path / "out").iterdir()) == []


def _carried(**more: object) -> dict[str, object]:
    return {"version": 2, "format": "", "written": {}, "originals": [], "envelopes": [], **more}


def _envelope(at: str, files: object) -> dict[str, object]:
    return _carried(envelopes=[{"at": at, "skill": "codex", "depth": 0, "made": False, "files": files}])


@pytest.mark.parametrize(
    "carried",
    [
        _carried(originals=[{"format": "agent-skills", "files": {"SKILL.md": "x", ".envrc": "x"}, "written": {}}]),
        _carried(originals=[{"format": "agent-skills", "files": {"SKILL.md": None, "manifest.json": None}, "written": {}}]),
        _carried(written={"../x": "y"}),
        _envelope("a", {".git/config": "x"}),
        _envelope("a", {"b/.vscode/t": "x"}),
        _envelope("a", {".claude-plugin": "x"}),
        _envelope("../a", {}),
        _envelope(".git/a", {}),
        _envelope("a", {"a": "x"}),
        _envelope("a/b", {"a": "x"}),
        _envelope("a", {"b": "x", "b/c": "y"}),
        _envelope("a", {"b": {"base64": "?"}}),
        [],
        {"originals": 1},
    ],
)
def test_a_sidecar_that_reaches_for_other_files_is_refused(tmp_path: Path, carried: object) -> None:
    source = _skill(tmp_path / "text-editor")
    (source / ORIGINALS_FILE).write_text(json.dumps(carried))
    for to in ("claude-plugin", "codex"):
        with pytest.raises(InvalidManifest):
            convert(source, tmp_path / "out", to)  # type: ignore[arg-type]
    assert list((tmp_path / "out").iterdir()) == []


def test_what_a_stranger_carries_along_replaces_no_file_of_a_skill(tmp_path: Path) -> None:
    source = _skill(tmp_path / "text-editor")
    evil = "---\nname: evil\ndescription: Evil.\n---\n"
    files = {"here/SKILL.md": evil, ".claude-plugin/plugin.json": "[1"}
    envelope = {"at": "here", "skill": "agent-skills", "depth": 0, "made": False, "files": files}
    (source / ORIGINALS_FILE).write_text(json.dumps(_carried(envelopes=[envelope])))
    (done,) = convert(source, tmp_path / "out", "claude-plugin")
    assert (done.path / "here/SKILL.md").read_text() == SKILL
    assert any("restored with it" in note for note in done.notes)


def test_what_comes_back_is_reported_for_a_stranger_may_have_written_it(tmp_path: Path) -> None:
    there = _skill(tmp_path / "text-editor")
    files = {"SKILL.md": "---\nname: other\ndescription: Other.\n---\n", "manifest.json": None}
    written = {"SKILL.md": SKILL, "manifest.json": None}
    past = {"format": "agent-skills", "files": files, "written": {}}
    (there / ORIGINALS_FILE).write_text(json.dumps(_carried(format="codex", written=written, originals=[past])))
    (done,) = convert(there, tmp_path / "out", "agent-skills")
    assert any("as its publisher wrote it" in note for note in done.notes)


def test_a_plugin_with_a_huge_file_is_not_read_into_memory(tmp_path: Path) -> None:
    plugin = tmp_path / "office"
    _skill(plugin / "skills/pdf", SKILL.replace("Text Editor", "pdf"))
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "office", "x": 1}')
    with (plugin / "huge.bin").open("wb") as file:
        file.truncate(3 * 1024**3)
    (done,) = convert(plugin, tmp_path / "out", "codex")
    carried = json.loads((done.path / ORIGINALS_FILE).read_text())
    assert list(carried["envelopes"][0]["files"]) == [".claude-plugin/plugin.json"]
    assert any("huge.bin (too large)" in note for note in done.notes)


@pytest.mark.parametrize("depth", [65, 400, 900, 100_000])
def test_a_manifest_that_is_nested_too_deeply_is_refused(tmp_path: Path, depth: int) -> None:
    source = _skill(tmp_path / "text-editor")
    deep = "[" * depth + "]" * depth
    (source / "manifest.json").write_text(f'{{"skill_id": "x", "name": "x", "version": "1.0.0", "x_own": {deep}}}')
    with pytest.raises(InvalidManifest, match="levels deep"):
        convert(source, tmp_path / "out", "codex")
    (done,) = convert(source, tmp_path / "same", "agent-skills")
    assert tree_digest(done.path) == tree_digest(source)
