"""Registries in processes of their own, for tests that kill them: reads orders from standard input, forks one child for each.

A child's registry calls `checkpoint` before and after everything that changes the disk or the records. The environment of the
order may name one of these places, where the child kills itself. Nothing of this is in the product.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from typing import Any

from skillyard.database import Database
from skillyard.registry import ProgressEvent, Registry
from skillyard.registry import records as ledger_module
from skillyard.registry import version_store as versions_module

WATCHED = {
    "VersionStore": ("place", "activate", "deactivate", "remove"),
    "RegistryRecords": ("begin", "save", "activate", "deactivate", "end", "mark"),
}


def _deadly(plain: type, deadly_at: str) -> type:
    """`plain` with a checkpoint before and after each watched method."""

    def watched(name: str) -> Any:
        method = getattr(plain, name)

        @functools.wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            _checkpoint(f"{plain.__name__}.{name}:before", deadly_at)
            result = method(*args, **options)
            _checkpoint(f"{plain.__name__}.{name}:after", deadly_at)
            return result

        return call

    return type(plain.__name__, (plain,), {name: watched(name) for name in WATCHED[plain.__name__]})


def _checkpoint(place: str, deadly_at: str) -> None:
    if place == deadly_at:
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyRegistry(Registry):
    """A registry that dies at one place."""

    def __init__(self, *args: Any, deadly_at: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.deadly_at = deadly_at
        folder = _deadly(versions_module.VersionStore, deadly_at)
        self.versions_folder = folder(self.versions_folder.root)

    def _ledger_over(self, database: Database) -> Any:
        return _deadly(ledger_module.RegistryRecords, self.deadly_at)(database)


def carry_out(order: dict[str, Any]) -> None:
    """Do what one order says."""
    deadly_at = order.get("deadly_at", "")
    registry = DeadlyRegistry(order["data"], order["url"], deadly_at=deadly_at)

    def progress(event: ProgressEvent) -> None:
        _checkpoint(f"step:{event.step}", deadly_at)

    if order["do"] == "install":
        for source in order["sources"]:
            registry.install(
                source,
                consent=lambda changes: True,
                accept_source=True,
                progress=progress,
                force=order.get("force", False),
            )
    elif order["do"] == "rollback":
        registry.rollback(order["skill"], progress=progress)
    else:
        registry.uninstall(order["skill"], prune=order.get("prune", False), progress=progress)


def main() -> None:
    """Fork for each order; say the child's number at once and its status when it has ended."""
    for line in sys.stdin:
        orders = json.loads(line)
        children = [_child(order) for order in orders]
        _say(children)
        _say([os.waitpid(child, 0)[1] for child in children])


def _say(numbers: list[int]) -> None:
    sys.stdout.write(json.dumps(numbers) + "\n")
    sys.stdout.flush()


def _child(order: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        carry_out(order)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
