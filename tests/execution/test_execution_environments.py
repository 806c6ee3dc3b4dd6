"""Packages a Python script asks for: refused without leave, installed once, locked, and seen read-only."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.catalog import Configuration
from skillyard.errors import DependenciesUnavailable, InvalidPolicy, NotExecutable, PermissionDenied, SkillyardError
from skillyard.execution import Executor, environments
from skillyard.execution.script_block import ScriptBlock, read_script_block

BLOCK = '# /// script\n# requires-python = ">=3.9"\n# dependencies = [\n#   "iniconfig>=2",\n# ]\n# ///\n'
SCRIPT = f"""#!/usr/bin/env python3
{BLOCK}
import os
import iniconfig

def execute(parameters):
    folder = os.path.dirname(os.path.dirname(iniconfig.__file__))
    try:
        open(os.path.join(folder, "x"), "w")
    except OSError as error:
        return {{"version": iniconfig.__name__, "write": type(error).__name__}}
"""


@pytest.fixture
def data_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private home for installed things."""
    folder = Path(tempfile.mkdtemp(prefix="home-"))
    monkeypatch.setenv("SKILLYARD_HOME", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.row("000-40")
async def test_without_leave_the_packages_and_the_way_out_are_named(write_skill, data_home: Path) -> None:
    with pytest.raises(DependenciesUnavailable) as caught:
        await Executor().run(write_skill(SCRIPT), {})
    assert caught.value.details["dependencies"] == ["iniconfig>=2"]
    assert "iniconfig>=2" in caught.value.message
    assert "--install" in (caught.value.hint or "")
    assert list(data_home.iterdir()) == []


async def test_what_was_not_approved_is_not_even_asked_for_its_packages(write_skill, data_home: Path) -> None:
    with pytest.raises(PermissionDenied):
        await Executor(install=True).run(write_skill(SCRIPT), {}, digest="sha256:of something else")
    assert list(data_home.iterdir()) == []


async def test_packages_are_installed_once_and_then_used_without_leave(
    write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = write_skill(SCRIPT)
    runs = await asyncio.gather(*(Executor(install=True, backend=name).run(skill, {}) for name in ("bwrap", "landlock")))
    for run in runs:
        assert run.error is None, run.stderr
        assert isinstance(run.output, dict)
        assert run.output["version"] == "iniconfig"
        assert run.output["write"] in ("OSError", "PermissionError")
    kept = sorted((data_home / "cache/environments").iterdir())
    assert [path.suffix for path in kept if path.is_file()] == [".lock"]
    assert [path for path in kept if path.is_dir() and (path / "iniconfig").is_dir()] == [
        path for path in kept if path.is_dir()
    ]
    lock = next(path for path in kept if path.is_file()).read_text("utf-8")
    assert "iniconfig==" in lock
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    assert (await Executor().run(skill, {})).error is None


async def test_a_package_that_does_not_exist_is_an_error_with_its_reason(write_skill, data_home: Path) -> None:
    source = SCRIPT.replace("iniconfig>=2", "iniconfig>=2,<2")
    with pytest.raises(DependenciesUnavailable, match="cannot be installed") as caught:
        await Executor(install=True).run(write_skill(source), {})
    assert "iniconfig" in (caught.value.hint or "")
    assert list((data_home / "cache/environments").iterdir()) == []


async def test_without_uv_the_error_says_how_to_get_it(write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    with pytest.raises(DependenciesUnavailable) as caught:
        await Executor(install=True).run(write_skill(SCRIPT), {})
    assert "skillyard[scripts]" in (caught.value.hint or "")


def test_the_operator_allows_it_in_the_settings(write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    allowed = Executor.from_configuration(Configuration(sandbox={"install-dependencies": True}))
    with pytest.raises(DependenciesUnavailable, match="needs uv"):
        asyncio.run(allowed.run(write_skill(SCRIPT), {}))
    with pytest.raises(SkillyardError, match="true or false"):
        Executor.from_configuration(Configuration(sandbox={"install-dependencies": "yes"}))
    with pytest.raises(InvalidPolicy, match="a project cannot decide install-dependencies"):
        Executor.from_configuration(Configuration(project_sandbox={"install-dependencies": True}))


async def test_a_script_without_dependencies_needs_nothing(write_skill, data_home: Path) -> None:
    source = "# /// script\n# dependencies = []\n# ///\ndef execute(p):\n    return 1"
    assert (await Executor().run(write_skill(source), {})).output == 1


async def test_a_script_for_another_python_is_refused(write_skill, data_home: Path) -> None:
    with pytest.raises(NotExecutable, match=r"is for Python <3\.0"):
        await Executor(install=True).run(write_skill(SCRIPT.replace(">=3.9", "<3.0")), {})


def test_a_block_is_read_as_written() -> None:
    assert read_script_block(f"import os\n{BLOCK}") == ScriptBlock(("iniconfig>=2",), ">=3.9")
    assert read_script_block("# /// other\n# x = 1\n# ///\n") == ScriptBlock()
    assert read_script_block(BLOCK.replace("\n", "\r\n")) == ScriptBlock(("iniconfig>=2",), ">=3.9")


@pytest.mark.parametrize(
    "wanted",
    [
        "name @ https://example.org/x.whl", "git+https://example.org/x", "./local", "/etc/passwd", "-r other.txt",
        "--index-url=x", "a\\n--index-url x", "name @ file:///etc", "", "a b",
    ],
)  # fmt: skip
def test_only_packages_by_name_are_installed(wanted: str) -> None:
    with pytest.raises(NotExecutable):
        read_script_block(f'# /// script\n# dependencies = ["{wanted}"]\n# ///\n')


@pytest.mark.parametrize(
    "wanted", ["rich", "rich>=13,<15", "rich[jupyter] ~= 13.0", 'rich; python_version < "3.12"', "a.b_c-d==1.0"]
)
def test_requirements_by_name_are_kept(wanted: str) -> None:
    assert read_script_block(f"# /// script\n# dependencies = ['{wanted}']\n# ///\n").dependencies == (wanted,)


@pytest.mark.parametrize("text", ["dependencies = [", "dependencies = 'rich'", "requires-python = 3.9", "dependencies = [1]"])
def test_a_block_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(NotExecutable):
        read_script_block(f"# /// script\n# {text}\n# ///\n")
    with pytest.raises(NotExecutable, match="several"):
        read_script_block(BLOCK + "\n" + BLOCK)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("", True), (">=3.9", True), (">=3.9,<3.12", True), ("<3.11", False), ("==3.11.*", True), ("==3.*", True),
        ("!=3.11", False), ("~=3.9", True), ("~=3.9.1", False), (">3.11", False), (">3.11.2", True),
        ("<=3.11", True), (">=4", False),
    ],
)  # fmt: skip
def test_requires_python_is_judged_by_major_and_minor(wanted: str, fits: bool) -> None:
    assert ScriptBlock(requires_python=wanted).allows((3, 11)) is fits
    with pytest.raises(NotExecutable):
        ScriptBlock(requires_python="new").allows((3, 11))


@given(st.text())
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for source in (text, f"# /// script\n# {text}\n# ///\n"):
        try:
            read_script_block(source)
        except NotExecutable:
            continue
