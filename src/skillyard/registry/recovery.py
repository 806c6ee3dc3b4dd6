"""Put in order what an operation left when it failed or its process was killed.

The link `current` on the disk decides: a version it leads to is whole and serves, so the records are brought to say that. A
version it does not lead to never served, so its files go. Nothing half is left, and the old version served all along.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skillyard.errors import DatabaseUnavailable, DiskFull

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.operations import Operations, Workplace
    from skillyard.registry.versions import Versions

__all__ = ["recover", "settle", "settling"]


def recover(operations: Operations, versions: Versions, ledger: Ledger) -> int:
    """Settle every operation whose process is gone; give how many there were."""
    count = 0
    for operation in operations.abandoned():
        settle(operation, versions, ledger, None)
        count += 1
    return count


def settle(operation: Workplace, versions: Versions, ledger: Ledger, error: BaseException | None) -> None:
    """Bring disk and records of one operation together, and end its logs; `error` is None when its process was killed."""
    for skill_id in ledger.touched(operation.id):
        with versions.locked(skill_id):
            _settle_skill(operation, skill_id, versions, ledger)
    ledger.fail_operation(operation.id, error)
    operation.settled = True


@contextlib.contextmanager
def settling(operation: Workplace, versions: Versions, ledger: Ledger) -> Iterator[None]:
    """Carry out an operation: it is settled at the end, and at once when something is raised."""
    try:
        yield
    except BaseException as error:
        full = DiskFull.of(error)
        with contextlib.suppress(DatabaseUnavailable):  # then the next start does it
            settle(operation, versions, ledger, full or error)
        if full is not None:
            raise full from error
        raise
    operation.settled = True


def _settle_skill(operation: Workplace, skill_id: str, versions: Versions, ledger: Ledger) -> None:
    current = versions.current(skill_id)
    for version in ledger.installing(operation.id, skill_id):
        if version == current:
            ledger.activate(skill_id, version, action="recover")
            ledger.end_interrupted(operation.id, skill_id)
        else:
            versions.remove(skill_id, version, operation.folder)
            ledger.fail_version(skill_id, version)
    known = ledger.skill(skill_id)
    if known is None or known.current_version == current:
        return
    if current is None:
        ledger.deactivate(skill_id)
    elif current in ledger.version_names(skill_id):
        ledger.activate(skill_id, current, action="recover")
    ledger.end_interrupted(operation.id, skill_id)
