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
from pathlib import Path
from typing import Any

from skillyard.database import Database
from skillyard.registry import ProgressEvent, Registry, registry_records, version_store
from skillyard.registry.backup import restore_backup, write_backup
from skillyard.registry.backup_archive import BackupHome

WATCHED = {
    "VersionStore": ("place", "activate", "deactivate", "remove"),
    "RegistryRecords": ("save", "activate", "deactivate", "mark"),
    "OperationLogs": ("begin", "end"),
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


def deadly_registry(data: str, url: str | None, deadly_at: str) -> Registry:
    """A registry that dies at one place."""
    registry = Registry(data, url)
    storage = registry.storage
    storage.versions = _deadly(version_store.VersionStore, deadly_at)(storage.versions.root)

    def open_records() -> Any:
        made = _deadly(registry_records.RegistryRecords, deadly_at)(Database.open(data, url))
        made.logs = _deadly(registry_records.OperationLogs, deadly_at)(made.database)
        return made

    storage._open_records = open_records  # type: ignore[method-assign] # for the places in it
    return registry


def carry_out(order: dict[str, Any]) -> None:
    """Do what one order says."""
    if order["do"] in ("backup", "restore"):
        home = BackupHome("default", Path(order["data"]), order["url"])
        if order["do"] == "backup":
            write_backup([home], Path(order["file"]), force=True)
        else:
            restore_backup(Path(order["file"]), lambda name: home, force=True)
        return
    deadly_at = order.get("deadly_at", "")
    registry = deadly_registry(order["data"], order["url"], deadly_at)

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
    os.fsync = lambda fd: None  # as in the tests themselves
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
