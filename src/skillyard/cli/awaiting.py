"""Saying that a server waits for its database: at once, with the reason and the way out, and again when it answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog

__all__ = ["telling_of_database"]

_SOON_S: Final = 1.0  # a database that has not answered by then is waited for
_AGAIN_S: Final = 1.0


@contextmanager
def telling_of_database(catalog: Catalog, screen: Screen) -> Iterator[None]:
    """Look for the database that was named, beside what the block does, until it answers or the block ends.

    A file of this machine is there, or it is made; whether one that is there is damaged is looked at once.
    """
    configured = catalog.configuration.database_url
    if not configured or configured.startswith("sqlite"):
        threading.Thread(target=_examine, args=(catalog.data_directory, configured, screen), daemon=True).start()
        yield
        return
    over = threading.Event()
    threading.Thread(target=_watch, args=(catalog.data_directory, configured, screen, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _examine(data: str, configured: str | None, screen: Screen) -> None:
    """Say it when the file of the records is damaged; requests that meet the damage say so too."""
    from skillyard.database import Database

    database = Database.at(data, configured)
    try:
        if database.file is None or not database.file.exists():
            return
        check = database.check(quick=True)
    except DatabaseUnavailable:
        return  # who asks for a record is told
    finally:
        database.close()
    if not check.whole:
        screen.note(f"the database {check.url} is damaged (database_damaged): {check.problems[0]}")
        screen.hint("stop the server, then `skillyard db repair` brings back what can be read")


def _watch(data: str, configured: str, screen: Screen, over: threading.Event) -> None:
    """Tell what keeps the database away, each reason once, until it answers."""
    from skillyard.database import database_url, shown_url

    name = shown_url(database_url(data, configured))
    told: list[str] = []

    def tell(reason: str, hint: str) -> None:
        if reason not in told and not over.is_set():
            told.append(reason)
            screen.note(f"waiting for the database (database_unavailable): {reason}; until it answers, /readyz says so too")
            screen.hint(hint)

    mute = f"the database {name} does not answer"
    soon = threading.Timer(_SOON_S, tell, (mute, "look whether it runs and can be reached from here"))
    soon.daemon = True
    soon.start()
    while not over.is_set():
        problem = _trouble(data, configured)
        soon.cancel()
        if problem is None:
            if told:
                screen.note(f"the database {name} answers")
            return
        tell(problem.message, problem.hint or "make it reachable")
        over.wait(_AGAIN_S)


def _trouble(data: str, configured: str) -> DatabaseUnavailable | None:
    """Why the database cannot be used; None when it can."""
    from skillyard.database import Database

    try:
        database = Database.open(data, configured, migrate=False)
        try:
            database.status()
        finally:
            database.close()
    except DatabaseUnavailable as error:
        return error
    return None
