"""Any way through the formats: whoever goes back finds the bytes that were there, and what was edited in between is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillyard.document import new_document
from skillyard.interop import FORMATS, PackageFormatName, convert
from skillyard.interop.reshaping import SKILL_FORMATS
from skillyard.packages import find_skills, tree_digest

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
_VALUES = st.one_of(_WORDS, st.integers(-5, 5), st.lists(_WORDS, max_size=2), st.dictionaries(_WORDS, _WORDS, max_size=2))
_FIELDS = st.dictionaries(st.sampled_from(["x-own", "keywords", "ttl", "author", "metadata", "version", "zz"]), _VALUES)
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


@st.composite
def _package(draw: st.DrawFn) -> dict[str, tuple[bytes, bool]]:
    """The files of a folder: one skill or two, in a plugin, a marketplace, both, or in none."""
    places = draw(st.sampled_from([["."], ["skills/one"], ["one", "deep/two"], ["skills/one", "skills/two"]]))
    files: dict[str, tuple[bytes, bool]] = {}
    for place in places:
        fields = draw(_FIELDS) | {"version": "1.0.0"}
        text = new_document(Path(place).name.strip(".") or "one", "What it is. Use it.", draw(_BODIES), extra=fields)
        files[f"{place}/SKILL.md"] = (text.replace("---\n", "---\n# kept\n", 1).encode(), False)
        files[f"{place}/scripts/main.py"] = (draw(_DATA), draw(st.booleans()))
    for path, data in ((".claude-plugin/plugin.json", draw(_PLUGIN)), (".claude-plugin/marketplace.json", draw(_MARKET))):
        files |= {path: (data, False)} if data is not None else {}
    around = draw(_OTHERS) if any(path.startswith(".claude-plugin") for path in files) else {}
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


@settings(max_examples=60, deadline=None)
@given(files=_package(), way=st.lists(st.sampled_from(FORMATS), min_size=1, max_size=6))
def test_whoever_goes_back_on_any_way_finds_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[bytes, bool]], way: list[PackageFormatName]
) -> None:
    root = tmp_path_factory.mktemp("way")
    source = _write(root / "mine", files)
    first: PackageFormatName = "agent-skills"
    if ".claude-plugin/plugin.json" in files or ".claude-plugin/marketplace.json" in files:
        first = "claude-plugin" if ".claude-plugin/plugin.json" in files else "claude-marketplace"
    here, been = source, [(first, {})]
    for number, to in enumerate(["agent-skills" if first == "agent-skills" else first, *way, *reversed(FORMATS), first]):
        here = _go(here, root / str(number), to)
        known = next((place for place, (name, _) in enumerate(been) if name == to), None)
        if known is None:
            been.append((to, _content(here)))
        elif not been[known][1]:
            been[known] = (to, _content(here))
        else:
            del been[known + 1 :]
            assert _content(here) == been[known][1], (number, to)
    if first != "agent-skills":
        assert _content(here) == _content(source)
    else:
        kept = {skill.name: tree_digest(skill.directory) for skill in find_skills(source)}
        assert {skill.name: tree_digest(skill.directory) for skill in find_skills(here)} == kept
    shutil.rmtree(root)
