"""The attacks of running scripts once more, all of them, as an ordinary user, with the control groups that one has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import skillyard
from skillyard.sandbox.runtimes import runtime_for

USER = 61_236
TESTS = Path(__file__).parents[1]
ROOMS = [
    "files",
    "processes",
    "resources",
    "network",
    "secrets",
    "shared_objects",
    "conclusion",
    "kernel_memory",
    "abuse_files",
    "abuse_processes",
]
DISTRIBUTIONS = ["pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest-asyncio", "typing-extensions"]


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A home for the user, and copies of the library, the tests and what runs them that the user can read."""
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    shutil.copytree(Path(skillyard.__file__).parent, folder / "lib/skillyard", ignore=shutil.ignore_patterns("__pycache__"))
    for name in DISTRIBUTIONS:
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (folder / "lib" / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), folder / "lib" / file)
    (folder / "tests/sandbox").mkdir(parents=True)
    for source in (*TESTS.glob("*.py"), *TESTS.glob("sandbox/*.py")):
        shutil.copy(source, folder / "tests" / source.relative_to(TESTS))
    shutil.copy(TESTS.parent / "pyproject.toml", folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "home").mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "home", USER, USER)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def as_user(ground: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the copy as the user."""
    root = os.geteuid() == 0
    return subprocess.run(
        [runtime_for("x.py", as_other=True).program if root else sys.executable, "-m", "pytest", *arguments],
        env={
            "HOME": str(ground / "home"),
            "PYTHONPATH": str(ground / "lib"),
            "PYTHONPYCACHEPREFIX": str(ground / "home/.pycache"),  # what one run has compiled the next need not
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        cwd=ground,
        timeout=240,
        check=False,
        **({"user": USER, "group": USER, "extra_groups": []} if root else {}),
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_attack_fails_for_an_ordinary_user_too(ground: Path, room: str) -> None:
    done = as_user(
        ground,
        f"tests/sandbox/test_sandbox_{room}.py",
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "no:cacheprovider",
        "-m",
        "abuse",
        "-k",
        "not uncounted",
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
