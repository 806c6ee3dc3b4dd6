"""Lets a process begin inside its control group, so that it never has to be moved there.

A child is born into the groups of the thread that starts it. Under version 1 a thread may change its own group alone, which the
kernel does in some microseconds; to move another process it stops every fork and exit of the machine, for up to ten
milliseconds. Version 2 keeps the threads of a process together, so there the run is moved (`move_tree`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from skillyard.sandbox.cgroup import Cgroup, own_groups, write_control

__all__ = ["born_inside"]


@contextlib.contextmanager
def born_inside(cgroup: Cgroup | None) -> Iterator[bool]:
    """Say whether what this thread starts meanwhile begins in `cgroup`; `False` where it has to be moved, or there is none.

    Raises:
        OSError: the thread cannot return to where it was.
    """
    if cgroup is None or not cgroup.at_home or not _is_home(cgroup):
        yield False
        return
    homes = [os.path.dirname(folder) for folder in cgroup.folders]
    try:
        yield all(_enter(folder) for folder in cgroup.folders)
    finally:
        for home in homes:
            write_control(f"{home}/tasks", "0")


def _is_home(cgroup: Cgroup) -> bool:
    """Whether this thread still is where the group was made; someone may have moved the process since."""
    own = own_groups()
    controllers = ("memory", "pids")[: len(cgroup.folders)]
    return all(
        os.path.dirname(folder).endswith(own.get(controller, "?").rstrip("/"))
        for folder, controller in zip(cgroup.folders, controllers, strict=True)
    )


def _enter(folder: str) -> bool:
    """Move the thread that calls; nobody else, so the kernel need not stop anyone."""
    try:
        write_control(f"{folder}/tasks", "0")
    except OSError:
        return False
    return True
