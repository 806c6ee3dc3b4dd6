"""Scan one skill within bounds: a small one here, any other in a helper process that is ended when a file takes too long.

The rules look at text that strangers wrote. A file that is given up is a finding of its own, so that nothing passes for clean
that nobody could look into.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from skillyard.errors import WorkMemoryExceeded, WorkTimedOut
from skillyard.scanner.finding import Report, Skipped
from skillyard.scanner.scanning import Scanned, scan_files, unscanned
from skillyard.scanner.suppressing import Suppression, suppressed

__all__ = ["scan_skill"]

_MOST_FINDINGS: Final = 1_000
_SMALL: Final = 32 * 1024
"""Up to so many bytes a skill is scanned in this process: the rules take a few microseconds for each byte."""
_MOST_ENTRIES: Final = 64
_FILE_SECONDS: Final = 20.0
_ALL_SECONDS: Final = 60.0
_MEMORY_MB: Final = 1024
_ATTEMPTS: Final = 4


def scan_skill(
    directory: str | os.PathLike[str],
    *,
    suppressions: Sequence[Suppression] = (),
    name: str | None = None,
    today: date | None = None,
) -> Report:
    """Look for harm in the skill in `directory`: advice, nothing is run and nothing is changed.

    Files are read up to 1 MiB each and 8 MiB of text together, scripts first; links are not followed. What was left out is in
    `skipped`. A file that takes over 20 seconds is left out with the finding `not-scanned`, and so is what is left of a skill
    after the third such file or a minute. `suppressions` name what the operator lets pass until a day, by the skill's `name`,
    which is that of SKILL.md when it is not given; `today` is that of the clock.

    Raises:
        OSError: the folder itself cannot be read.
        HelpersBusy, HelperFailed: no helper process is free, or none can be started.
    """
    folder = Path(directory)
    os.scandir(folder).close()
    whole = str(folder.resolve())
    scanned = scan_files(whole) if _is_small(whole) else _scanned_in_helper(whole)
    judged = suppressed(
        list(scanned.findings[:_MOST_FINDINGS]),
        suppressions,
        folder=str(folder),
        skill=name or scanned.name,
        today=today or datetime.now(UTC).date(),
    )
    skipped = scanned.skipped
    if len(scanned.findings) > _MOST_FINDINGS:
        omitted = len(scanned.findings) - _MOST_FINDINGS
        skipped = (*skipped, Skipped(".", f"{omitted} findings of less weight are not reported"))
    return Report(str(directory), tuple(judged), scanned.files, skipped)


def _is_small(folder: str) -> bool:
    """Whether the files of a folder are few and small; it is read no further than that needs."""
    waiting, size, entries = [folder], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_size
                    if size > _SMALL or entries > _MOST_ENTRIES:
                        return False
        except OSError:
            return False  # the scan itself says why
    return True


def _scanned_in_helper(folder: str) -> Scanned:
    """The scan in a helper process; each file at which it had to be ended is left out of the next attempt."""
    from skillyard.offload import WorkLimits, run_in_helper

    limits = WorkLimits(seconds=_ALL_SECONDS, step_seconds=_FILE_SECONDS, memory_mb=_MEMORY_MB)
    given_up: list[str] = []
    for _ in range(_ATTEMPTS - 1):
        try:
            return run_in_helper(scan_files, folder, tuple(given_up), _reason(), subject="a scan", limits=limits)
        except (WorkTimedOut, WorkMemoryExceeded) as error:
            at = error.details["at"]
            if not isinstance(at, str) or at in given_up or error.details.get("limit_seconds") == _ALL_SECONDS:
                break
            given_up.append(at)
    return _nothing_scanned(folder, given_up)


def _reason() -> str:
    return f"it could not be scanned within {_FILE_SECONDS:g} s and {_MEMORY_MB} MiB"


def _nothing_scanned(folder: str, given_up: Sequence[str]) -> Scanned:
    """The report about a skill that could not be scanned: one severe finding, and the files at which it was given up."""
    return unscanned(folder, given_up, f"the skill could not be scanned in time, or in {_MEMORY_MB} MiB")
