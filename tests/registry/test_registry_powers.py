"""What a skill may do is read from every file that could run, wherever it lies and however it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import parse_document
from skillyard.errors import ConsentRequired
from skillyard.registry import Powers, Registry, read_powers
from skillyard.registry.powers import NO_POWERS

BLOCK = '# /// script\n# dependencies = ["evil"]\n# ///\nprint(1)\n'

HOSTS = [
    "a.org", "A.org.", "*.a.org", "x.a.org", "*.x.a.org", "y.x.a.org", "https://a.org", "http://a.org", "a.org:443",
    "a.org:8080", "http://a.org:8080", "https://a.org:8080", "*", "no host", "[::1]:8443", "*.a.org:8080",
]  # fmt: skip
TOOLS = ["Bash", "Bash(git:*)", "Bash(git status)", "Read", "Read(src/**)", "mcp__a__b"]
WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=3).map(tuple)
SOME = st.builds(
    Powers,
    hosts=st.lists(st.sampled_from(HOSTS), max_size=4).map(tuple),
    tools=st.lists(st.sampled_from(TOOLS), max_size=3).map(tuple),
    any_tool=st.booleans(),
    by_model=st.booleans(),
    filesystem=st.sampled_from(["none", "read-only", "read-write"]),
    timeout_ms=st.integers(0, 3),
    memory_mb=st.integers(0, 3),
    **dict.fromkeys(
        ("scripts", "environment", "packages", "servers", "hidden", "needs", "secrets", "skills", "events", "fetches"), WORDS
    ),
)


@given(SOME, SOME, SOME)
def test_powers_are_a_lattice(a: Powers, b: Powers, c: Powers) -> None:
    joined = a | b
    assert a <= a
    assert a >= NO_POWERS
    assert (a <= b and b <= a) == (a == b)
    assert a <= joined and b <= joined, "a bound of both"
    assert (joined <= c) == (a <= c and b <= c), "the least one"
    assert joined <= joined | c, "and so the order is transitive"
    assert not (a <= b and b <= c) or a <= c
    assert (a | b, a | a, a | (b | c)) == (b | a, a, (a | b) | c)
    assert (a <= b) == (joined == b)


@given(SOME, SOME, SOME)
def test_a_difference_is_all_that_is_wider_and_nothing_else(a: Powers, b: Powers, c: Powers) -> None:
    assert (a - b <= c) == (a <= b | c)
    assert (a - b) | b == a | b
    assert (a - b == NO_POWERS) == (a <= b) == (a.added_since(b) == ())
    assert len(a.lost_since(b)) == len(b.added_since(a))


@pytest.mark.parametrize(
    ("entries", "form"),
    [
        (["https://a.org", "A.ORG.", "a.org"], ("a.org",)),
        (["http://a.org:8080", "https://a.org:8080"], ("a.org:8080",)),
        (["x.a.org", "*.a.org", "*.x.a.org", "a.org"], ("*.a.org", "a.org")),
        (["http://x.a.org:443", "*.a.org:443"], ("*.a.org:443",)),
        (["http://x.a.org:443", "*.a.org"], ("*.a.org", "http://x.a.org:443")),
        (["*", "no host"], ("*", "no host")),
    ],
)
def test_lists_of_hosts_that_permit_the_same_are_the_same(entries: list[str], form: tuple[str, ...]) -> None:
    assert Powers(hosts=tuple(entries)).hosts == form
    assert Powers(hosts=form).hosts == form


@given(SOME, st.sampled_from(["scripts", "packages", "hidden", "servers", "secrets", "skills", "events", "fetches", "needs"]))
def test_whatever_is_added_is_reported(powers: Powers, name: str) -> None:
    wider = powers | Powers(**{name: ("new",)})
    assert any(sentence.endswith(" new") for sentence in wider.added_since(powers))
    assert not wider <= powers


def _powers(folder: Path) -> Powers:
    return read_powers(folder, parse_document((folder / "SKILL.md").read_bytes()))


@pytest.mark.parametrize(
    "path",
    [
        "references/x.py", "assets/deep/x.sh", "templates/x.mts", "X.PY", "references/x.Js", "node_modules/a/index.js",
        "__pycache__/x.cpython-311.pyc", "dist/x.mjs", ".hidden/x.py", "build/lib.so", "references/x.wasm", "x.jar", "x.ps1",
        "x.exe", "x.node", "x.pyz", "x.tsx", "x.fish", "x.awk", ".git/hooks/x.py",
    ],
)  # fmt: skip
@pytest.mark.abuse("F24")
def test_a_script_is_a_power_wherever_it_lies(path: str, write: Any) -> None:
    assert _powers(write(files={path: "x"})).scripts == (path,)


@pytest.mark.parametrize("content", ["#!/bin/sh\n", "\ufeff#!/usr/bin/env python3\n", "\x7fELF\x02", "MZ\x90", "\x00asm\x01"])
@pytest.mark.parametrize("path", ["references/notes.md", "assets/tool", "data.txt"])
@pytest.mark.abuse("F24")
def test_a_program_is_known_by_how_it_begins(path: str, content: str, write: Any) -> None:
    folder = write()
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(content.encode("utf-8" if "\ufeff" in content else "latin-1"))
    assert _powers(folder).scripts == (path,)


def test_what_may_be_executed_is_a_power_and_data_is_none(write: Any) -> None:
    folder = write(files={"references/a.md": "# A\n", "assets/logo.svg": "<svg/>", "data/tool": "plain"})
    assert _powers(folder).scripts == ()
    assert _powers(folder).sentences() == ()
    (folder / "data/tool").chmod(0o755)
    assert _powers(folder).sentences() == ("has the script data/tool",)


@pytest.mark.abuse("F24")
def test_a_declared_entry_outside_scripts_is_reported_at_the_first_install(registry: Registry, write: Any) -> None:
    folder = write(header="resources:\n  entry: references/x.py\n", files={"references/x.py": BLOCK})
    (result,) = registry.install(str(folder)).results
    assert result.powers is not None
    assert result.powers.sentences() == ("has the script references/x.py", "installs the package evil")
    assert result.to_dict()["power_sentences"] == list(result.powers.sentences())


@pytest.mark.parametrize("path", ["references/x.py", "references/tool", "X.PYW"])
@pytest.mark.abuse("F24")
def test_a_package_that_comes_with_an_update_is_asked_wherever_its_script_lies(
    path: str, registry: Registry, write: Any
) -> None:
    folder = write(files={path: "#!/usr/bin/env python3\n"})
    before = registry.install(str(folder)).results[0].version
    write(files={path: "#!/usr/bin/env python3\n" + BLOCK})
    with pytest.raises(ConsentRequired, match="installs the package evil"):
        registry.install(str(folder))
    assert registry.installed.current("tidy").version == before


def test_a_pipe_among_the_files_of_a_skill_holds_nobody_up(write: Any) -> None:
    folder = write(files={"references/a.py": "print(1)\n"})
    os.mkfifo(folder / "references/pipe")
    assert _powers(folder).scripts == ("references/a.py",)
