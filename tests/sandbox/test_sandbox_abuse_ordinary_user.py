"""The attacks of running scripts once more, all of them, as an ordinary user, with the control groups that one has.

`make test` makes them where nothing but Landlock and limits of processes stand before the files of that user, `make test-long`
in bubblewrap as well, and those of `SLOW`, which go on in the same way whoever starts them; what differs there for an ordinary
user is tried by `test_sandbox_ordinary_user.py` in `make test` too.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from ordinary_user import OrdinaryUser, ordinary_user, readable

TESTS = Path(__file__).parents[1]
ROOMS = [
    "files",
    "processes",
    "resources",
    "network",
    "secrets",
    "shared_objects",
    "run_end",
    "kernel_memory",
    "abuse_files",
    "abuse_processes",
]
SLOW = [
    "sixty_four_bombs",
    "has_written[landlock-deep]",
    "empty_files_are_bounded",
    "watcher_grow",
    *(f"nobody_outside[landlock-{version}]" for version in (3, 4, 5)),
]
DISTRIBUTIONS = ["pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest-asyncio", "typing-extensions"]


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    """A user who can read the tests and what runs them."""
    with ordinary_user(61_236) as user:
        for name in DISTRIBUTIONS:
            for file in metadata.distribution(name).files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    (user.library / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(str(file.locate()), user.library / file)
        (user.folder / "tests/sandbox").mkdir(parents=True)
        for source in (*TESTS.glob("*.py"), *TESTS.glob("sandbox/*.py")):
            shutil.copy(source, user.folder / "tests" / source.relative_to(TESTS))
        shutil.copy(TESTS.parent / "pyproject.toml", user.folder)
        readable(user.library)
        readable(user.folder / "tests")
        (user.folder / "pyproject.toml").chmod(0o644)
        yield user


@pytest.fixture(
    scope="module",
    params=["landlock", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("bwrap", "landlock with the slow ones"))],
)
def outcome(user: OrdinaryUser, request: pytest.FixtureRequest) -> str:
    """What pytest says of all the attacks in one kind of sandbox, and of those that choose it themselves, in one process."""
    files = [f"tests/sandbox/test_sandbox_{room}.py" for room in ROOMS]
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-rA", "--tb=short")
    other = "landlock" if request.param == "bwrap" else "bwrap"
    left = "".join(f" and not {name}" for name in SLOW) if request.param == "landlock" else ""
    chosen = ("-m", "abuse", "-k", f"not uncounted and not {other}{left}")
    return user.run("-m", "pytest", *files, *chosen, *plugins, timeout=280, fails=True, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


@pytest.mark.parametrize("room", ROOMS)
def test_every_attack_fails_for_an_ordinary_user_too(outcome: str, room: str) -> None:
    lines = [line for line in outcome.splitlines() if f"test_sandbox_{room}.py" in line]
    kinds = Counter(line.split()[0] for line in lines if line.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL")))
    assert kinds["PASSED"] and set(kinds) == {"PASSED"}, outcome[-12_000:]
