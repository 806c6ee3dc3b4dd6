"""Who a run is: an unprivileged user when the service itself is root.

Root owns the host's files even inside a user namespace, and process limits do not bind root; so a root service gives each run
a user number of its own that owns nothing.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Above the ranges that systemd and container managers hand out, below what signed 32-bit tools misread.
_FIRST: Final = 0x70000000
_COUNT: Final = 0x0FFFFFFF
_NOBODY: Final = 65_534


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and group number that own nothing; `single` when no other run has the same."""

    uid: int
    gid: int
    single: bool


def pick_identity() -> Identity | None:
    """A user for the next run, or `None` when this process is not root and runs are its own user."""
    if os.geteuid() != 0:
        return None
    number = _FIRST + int.from_bytes(os.urandom(4), "big") % _COUNT
    if _is_mapped(number):
        return Identity(number, number, single=True)
    return Identity(_NOBODY, _NOBODY, single=False)


def is_own_number(uid: int) -> bool:
    """Whether a user number is one that `pick_identity` gives, which nobody else has."""
    return _FIRST <= uid < _FIRST + _COUNT


def _is_mapped(number: int) -> bool:
    """Whether this user namespace knows the number: in a container perhaps only the first 65,536 exist."""
    try:
        rows = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    spans = [[int(part) for part in row.split()] for row in rows]
    return any(first <= number < first + count for first, _, count in spans)


def can_reach(path: str, *, as_other: bool) -> bool:
    """Whether a run can open `path`: as the world when it is another user (`as_other`), else as this process."""
    real = os.path.realpath(path)
    if not as_other:
        return os.access(real, os.R_OK | os.X_OK)
    try:
        modes = [part.stat().st_mode for part in (Path(real), *Path(real).parents)]
    except OSError:
        return False
    return all(mode & stat.S_IXOTH for mode in modes) and bool(modes[0] & stat.S_IROTH)
