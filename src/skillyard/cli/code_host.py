"""What `check` and `scan` do for a code host: annotations on the lines of a change, and which skills a change touches."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.screen import UsageProblem

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

_LEVELS: Final = {"error": "error", "high": "error", "warning": "warning", "medium": "warning"}
_DEADLINE_S: Final = 60
_IN_TEXT: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def add_code_host_options(parser: argparse.ArgumentParser) -> None:
    """The options for continuous integration, the same for `check` and `scan`."""
    parser.add_argument(
        "--format", choices=("text", "github"), default="text", help="github: findings as annotations of a workflow"
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="REF",
        help="only skills with files that differ from this commit of git, or are new (default of REF: HEAD)",
    )


def annotate(screen: Screen, path: str, line: int, severity: str, rule: str, message: str) -> None:
    """Write one finding as a workflow command of GitHub, which draws it beside the line."""
    level = _LEVELS.get(severity, "notice")
    where = os.path.relpath(path) if Path(path).is_absolute() else path
    properties = f"file={where.translate(_IN_PROPERTY)},line={line},title={rule.translate(_IN_PROPERTY)}"
    screen.text(f"::{level} {properties}::{message.translate(_IN_TEXT)}")


class ChangedFiles:
    """The files of the git repository around the working folder that differ from a commit, and those git does not know yet.

    Raises:
        UsageProblem: there is no git, no repository or no such commit.
    """

    def __init__(self, ref: str) -> None:
        if ref.startswith("-"):
            raise UsageProblem(f"--changed {ref} is no commit", hint="name a commit or branch, such as origin/main")
        self._ref = ref
        self._top = top = Path(_git("rev-parse", "--show-toplevel").rstrip("\n"))
        names = _git("-C", str(top), "diff", "--name-only", "-z", ref, "--")
        new = _git("-C", str(top), "ls-files", "--others", "--exclude-standard", "-z")
        self._paths = tuple((top / name).resolve() for name in (names + new).split("\0") if name)

    def touch(self, folders: Iterable[str | Path]) -> bool:
        """Whether a changed file is in one of the folders."""
        reals = [Path(folder).resolve() for folder in folders]
        return any(path.is_relative_to(real) for path in self._paths for real in reals)

    def before(self, file: str | Path) -> str | None:
        """The text of a file in the commit; None where it had none."""
        name = Path(file).resolve().relative_to(self._top.resolve()).as_posix()
        if not _git("-C", str(self._top), "ls-tree", "--name-only", "-z", self._ref, "--", name):
            return None
        return _git("-C", str(self._top), "show", f"{self._ref}:{name}")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, timeout=_DEADLINE_S, check=False)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageProblem(f"--changed asks git, which does not answer: {error}", hint="install git, or name paths") from None
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip().splitlines()
        reason = problem[0] if problem else f"git ended with {done.returncode}"
        raise UsageProblem(
            f"--changed cannot compare: {reason}", hint="call it in a git repository, with a commit that was fetched"
        )
    return os.fsdecode(done.stdout)
