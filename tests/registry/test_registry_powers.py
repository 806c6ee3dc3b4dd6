"""What a skill may do is read from every file that could run, wherever it lies and however it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from skillyard.document import parse_document
from skillyard.errors import ConsentRequired
from skillyard.registry import Powers, Registry, read_powers

BLOCK = '# /// script\n# dependencies = ["evil"]\n# ///\nprint(1)\n'


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
def test_a_declared_entry_outside_scripts_is_told_at_the_first_install(registry: Registry, write: Any) -> None:
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
