"""Any way through the formats: whoever goes back finds the bytes that were there, and what was edited in between is kept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import new_document, read_front_matter, set_front_matter
from skillyard.errors import InvalidSkill
from skillyard.interop import FORMATS, ORIGINALS_FILE, PackageFormatName, convert
from skillyard.interop.plugin_packages import PLUGIN_FILES
from skillyard.interop.skill_formats import SKILL_FORMATS, format_of_skill
from skillyard.packages import find_skills

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
_VALUES = st.one_of(_WORDS, st.integers(-5, 5), st.lists(_WORDS, max_size=2), st.dictionaries(_WORDS, _WORDS, max_size=2))
_FIELDS = st.dictionaries(st.sampled_from(["x-own", "keywords", "ttl", "metadata", "zz"]), _VALUES)
_BODIES = st.sampled_from(["", "Do it.\n", "\n\n# Do\n\nIt.\n\n\n", "no end", "# A\r\n\r\nB\r\n", "---\nrule\n"])
_DATA = st.one_of(st.just(b""), st.binary(max_size=40), st.just(b"#!/bin/sh\necho hi\n"))
_OTHERS = st.dictionaries(
    st.sampled_from(
        ["hooks/hooks.json", "hooks/run.sh", "README.md", "commands/a b.md", ".mcp.json", "skills/notes.txt", "agents/empty/"]
    ),
    st.tuples(_DATA, st.booleans()),
)
_PLUGIN = st.sampled_from([None, b'{"name": "office", "x": 1}', b'{"name":"o","description":"d"}\n', b"{broken"])
_MARKET = st.sampled_from([None, b'{"name": "shop", "owner": {"name": "me"}, "plugins": []}'])
_SCHEMA = b'"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"'
_AGENT = st.sampled_from([None, None, b'{%s, "name": "a.b", "version": "1", "extensions": {}}' % _SCHEMA, b"{%s}" % _SCHEMA])
_SERVERS = {
    ".mcp.json": b'{"mcpServers": {"one": {"command": "${CLAUDE_PLUGIN_ROOT}/run", "args": ["-x"]}, "two": {"url": "ftp://x"}}}',
    "mcp.json": b'{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json",\n "mcpServers":'
    b' {"a": {"type": "sse", "url": "https://a.org"}, "b": {"type": "stdio", "command": "./run"}}}',
}


@st.composite
def _package(draw: st.DrawFn) -> dict[str, tuple[bytes, bool]]:
    """The files of a folder: one skill or two, in a plugin, a marketplace, both, or in none."""
    places = draw(st.sampled_from([["."], ["skills/one"], ["one", "deep/two"], ["skills/one", "skills/two"]]))
    files: dict[str, tuple[bytes, bool]] = {}
    for place in places:
        fields = draw(_FIELDS) | {"version": "1.0.0", "author": draw(_WORDS)}
        text = new_document(Path(place).name.strip(".") or "one", "What it is. Use it.", draw(_BODIES), extra=fields)
        files[f"{place}/SKILL.md"] = (text.replace("---\n", "---\n# kept\n", 1).encode(), False)
        files[f"{place}/scripts/main.py"] = (draw(_DATA), draw(st.booleans()))
    about = {".claude-plugin/plugin.json": _PLUGIN, ".claude-plugin/marketplace.json": _MARKET, "plugin.json": _AGENT}
    files |= {path: (data, False) for path, values in about.items() if (data := draw(values)) is not None}
    around = draw(_OTHERS) if not about.keys().isdisjoint(files) else {}
    if around and draw(st.booleans()):
        around |= {path: (data, False) for path, data in _SERVERS.items() if draw(st.booleans())}
    return around | files


def _write(folder: Path, files: dict[str, tuple[bytes, bool]]) -> Path:
    for path, (data, executable) in files.items():
        target = folder / path
        if path.endswith("/"):
            target.mkdir(parents=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if executable else 0o644)
    return folder


def _go(source: Path, step: Path, to: PackageFormatName) -> Path:
    """The folder to go on from: the package that was made, or the one with the skills."""
    out = step / "mine"
    done = convert(source, out, to)
    assert not list(out.glob(".*"))
    return out if to in SKILL_FORMATS else done[0].path


def _content(tree: Path) -> dict[str, tuple[bytes, bool]]:
    """All that is in a folder: what `tree_digest` counts, to be looked at when two differ."""
    found = {}
    for path in tree.rglob("*"):
        name = path.relative_to(tree).as_posix()
        if path.is_file():
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        elif not any(path.iterdir()):
            found[f"{name}/"] = (b"", False)
    return found


@given(files=_package(), kind=st.sampled_from(SKILL_FORMATS), way=st.lists(st.sampled_from(FORMATS), min_size=1, max_size=6))
def test_whoever_goes_back_after_any_way_finds_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[bytes, bool]],
    kind: PackageFormatName,
    way: list[PackageFormatName],
) -> None:
    root = tmp_path_factory.mktemp("way")
    source = _write(root / "mine", files)
    for skill in find_skills(source):  # each as somebody else would have written it in that format
        (done,) = convert(skill.directory, root / "kinds" / skill.path, kind)
        (done.path / ORIGINALS_FILE).unlink(missing_ok=True)
        shutil.copytree(done.path, skill.directory, dirs_exist_ok=True)
    found = find_skills(source)
    first = cast("PackageFormatName", format_of_skill(found[0].directory))
    wrapped = [name for name, path in PLUGIN_FILES.items() if (source / path).is_file()]
    here = source
    for number, to in enumerate([*way, wrapped[0] if wrapped else first]):
        here = _go(here, root / str(number), to)
    if wrapped:
        assert _content(here) == _content(source), "the package"
    else:
        kept = {skill.name: _content(skill.directory) for skill in found}
        assert {skill.name: _content(skill.directory) for skill in find_skills(here)} == kept
    shutil.rmtree(root)


_EDITS = st.sampled_from(["description", "body", "x-new", "version", "author", "name"])


@given(
    start=st.sampled_from(SKILL_FORMATS),
    way=st.lists(st.sampled_from(SKILL_FORMATS), min_size=1, max_size=4),
    edits=st.lists(_EDITS, min_size=1, max_size=3, unique=True),
    data=st.data(),
)
def test_every_edit_on_the_way_is_found_at_its_end(
    tmp_path_factory: pytest.TempPathFactory,
    start: PackageFormatName,
    way: list[PackageFormatName],
    edits: list[str],
    data: st.DataObject,
) -> None:
    root = tmp_path_factory.mktemp("edits")
    text = new_document("one", "What it is.", "# One\n\nDo it.\n", extra={"x-own": {"deep": [1, "two"]}, "ttl": 60})
    here = _write(root / "one", {"SKILL.md": (text.encode(), False), "scripts/main.py": (b"1\n", True)})
    (done,) = convert(here, root / "first", start)
    here = done.path
    expected: dict[str, object] = {}
    for number, to in enumerate([*way, start]):
        for what in data.draw(st.lists(st.sampled_from(edits), unique=True, max_size=2)):
            expected[what] = f"edit-{what}-{number}" if what != "version" else f"2.0.{number}"
            _edit(here / "SKILL.md", what, str(expected[what]))
        (done,) = convert(here, root / str(number), to)
        here = done.path
    (done,) = convert(here, root / "last", "agent-skills")
    text = (done.path / "SKILL.md").read_text()
    fields = read_front_matter(text.encode()).texts
    body = expected.pop("body", "Do it.")
    assert str(body) in text
    assert {name: fields.get(name) for name in expected} == expected
    assert fields["x-own"] == {"deep": ["1", "two"]}
    shutil.rmtree(root)


def _edit(file: Path, what: str, value: str) -> None:
    text = file.read_text()
    file.write_text(text + f"\n{value}\n" if what == "body" else set_front_matter(text, {what: value}))


def test_an_edit_of_a_manifest_is_found_in_the_original_beside_comments_and_fields_of_its_own(tmp_path: Path) -> None:
    text = "---\n# a comment\nname: one\ndescription: What it is.\nx-own: {deep: [1, two]}\n---\nDo it.\n"
    source = _write(tmp_path / "one", {"SKILL.md": (text.encode(), False)})
    (done,) = convert(source, tmp_path / "there", "semibot")
    manifest = json.loads((done.path / "manifest.json").read_text())
    (done.path / "manifest.json").write_text(json.dumps(manifest | {"category": "games", "description": "Another."}))
    (third,) = convert(done.path, tmp_path / "third", "anthropic")
    (back,) = convert(third.path, tmp_path / "back", "agent-skills")
    assert (back.path / "SKILL.md").read_text() == text.replace("What it is.", "Another.").replace(
        "---\nDo", "category: games\n---\nDo"
    )
    assert any("the changes were kept" in note for note in back.notes)


def test_an_edit_deep_in_a_field_changes_only_that(tmp_path: Path) -> None:
    text = "---\nname: one\ndescription: What it is.\nsecurity:\n  network: none\n---\nDo it.\n"
    source = _write(tmp_path / "one", {"SKILL.md": (text.encode(), False)})
    (done,) = convert(source, tmp_path / "there", "apexbridge")
    there = done.path / "SKILL.md"
    assert "timeout_ms: 3000" in there.read_text()
    there.write_text(there.read_text().replace("memory_mb: 128", "memory_mb: 256"))
    (back,) = convert(done.path, tmp_path / "back", "agent-skills")
    assert read_front_matter((back.path / "SKILL.md").read_bytes()).values["security"] == {"network": "none", "memory_mb": 256}


@pytest.mark.parametrize(
    "header",
    [
        "name: a\nname: b\ndescription: x",
        "name: a\n\tdescription: x",
        "- a",
        "name: &a b",
        "name: a\ndescription: {a: 1, a: 2}",
    ],
)
def test_a_front_matter_that_cannot_be_read_is_refused_with_its_line_or_left_as_it_is(tmp_path: Path, header: str) -> None:
    data = f"---\n{header}\n---\nDo it.\n".encode()
    source = _write(
        tmp_path / "all", {"good/SKILL.md": (b"---\nname: good\ndescription: x\n---\n", False), "bad/SKILL.md": (data, False)}
    )
    for to in SKILL_FORMATS[1:]:
        with pytest.raises(InvalidSkill, match=r"bad/SKILL.md, line \d"):
            convert(source, tmp_path / "out", to)
    assert list((tmp_path / "out").iterdir()) == []
    (plugin,) = convert(source, tmp_path / "plugin", "claude-plugin")
    assert data in [path.read_bytes() for path in plugin.path.rglob("SKILL.md")]
    same = convert(source, tmp_path / "same", "agent-skills")
    assert data in [(one.path / "SKILL.md").read_bytes() for one in same]


def test_a_text_without_front_matter_is_converted_and_comes_back(tmp_path: Path) -> None:
    source = _write(tmp_path / "plain", {"SKILL.md": (b"# Plain\n\nDo it.\n", False)})
    for to in SKILL_FORMATS[1:]:
        (there,) = convert(source, tmp_path / to, to)
        assert "Do it." in (there.path / "SKILL.md").read_text()
        (back,) = convert(there.path, tmp_path / f"{to}-back", "agent-skills")
        assert _content(back.path) == _content(source)


def test_a_plugin_as_a_marketplace_keeps_all_it_has_and_says_what_is_left_out(tmp_path: Path) -> None:
    plugin = _write(
        tmp_path / "office",
        {
            ".claude-plugin/plugin.json": (b'{"name": "office", "version": "1.2.3", "x": 1}', False),
            "hooks/run.sh": (b"#!/bin/sh\n", True),
            ".github/ci.yml": (b"on: push\n", False),
            ".git/config": (b"secret", False),
            "skills/one/SKILL.md": (b"---\nname: one\ndescription: x\n---\n", False),
        },
    )
    (plugin / "link").symlink_to("hooks")
    (market,) = convert(plugin, tmp_path / "out", "claude-marketplace")
    listed = json.loads((market.path / ".claude-plugin/marketplace.json").read_text())
    assert listed["plugins"] == [{"name": "office", "version": "1.2.3", "source": "./"}]
    assert (market.path / "hooks/run.sh").stat().st_mode & 0o100
    assert (market.path / ".github/ci.yml").is_file()
    assert market.notes == ("left out: .git, link",)
    (skill,) = convert(plugin, tmp_path / "skills", "codex")
    (note,) = (note for note in skill.notes if "not kept" in note)
    assert all(name in note for name in (".github/ci.yml (hidden)", ".git (left out", "link (a link"))


def test_two_skills_of_one_name_and_two_plugins_in_a_folder_stay_two(tmp_path: Path) -> None:
    skill = (b"---\nname: one\ndescription: x\n---\n", False)
    for plugin in ("a", "b"):
        _write(
            tmp_path / "all" / plugin,
            {".claude-plugin/plugin.json": (b'{"name": "%s"}' % plugin.encode(), False), "s/SKILL.md": skill},
        )
    apart = convert(tmp_path / "all", tmp_path / "apart", "codex")
    assert [one.path.name for one in apart] == ["one", "one-2"]
    markets = convert(tmp_path / "all", tmp_path / "markets", "claude-marketplace")
    assert [one.path.name for one in markets] == ["a", "b"]
    back = convert(tmp_path / "apart", tmp_path / "back", "claude-plugin")
    assert len(back) == 1
    assert sorted(path.parent.name for path in back[0].path.rglob("SKILL.md")) == ["one", "s"]


def test_what_an_earlier_conversion_wrote_into_the_source_is_not_converted_again(tmp_path: Path) -> None:
    plugin = _write(
        tmp_path / "office",
        {
            ".claude-plugin/plugin.json": (b'{"name": "office"}', False),
            "skills/one/SKILL.md": (b"---\nname: one\n---\n", False),
        },
    )
    first = convert(plugin, plugin / "converted", "codex")
    before = _content(first[0].path)
    again = convert(plugin, plugin / "converted", "codex", force=True)
    assert [one.path for one in again] == [one.path for one in first]
    assert _content(again[0].path) == before


_STEPS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "ctypes.call_function", "os.scandir"}


def _killed_at(step: int, source: Path, out: Path, to: PackageFormatName) -> bool:
    """Convert in a process of its own that is killed at its `step`-th step; whether it was."""
    if (child := os.fork()) == 0:
        left = step

        def count(event: str, _details: object) -> None:
            nonlocal left
            if event in _STEPS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            convert(source, out, to, force=True)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


def test_a_conversion_in_place_that_is_killed_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    text = b"---\nname: one\ndescription: x\nx-own: 1\n---\nDo it.\n"
    _write(skills, {"one/SKILL.md": (text, False), "one/scripts/run.sh": (b"#!/bin/sh\n", True)})
    old = _content(skills / "one")
    (done,) = convert(skills, tmp_path / "other", "semibot")
    new = _content(done.path)
    seen = set()
    for step in range(1, 1000, 3):
        killed = _killed_at(step, skills, skills, "semibot")
        now = _content(skills / "one")
        assert now in (old, new)
        seen.add(now == new)
        if not killed:
            break
        if now == new:
            convert(skills, skills, "agent-skills", force=True)
            assert _content(skills / "one") == old
    assert seen == {True, False}
    assert [path.name for path in skills.iterdir()] == ["one"]
