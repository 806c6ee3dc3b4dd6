"""What the commands about backups share: which homes there are, the server's own and those of organisations."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillyard.registry.backup import Place

__all__ = ["home_of", "homes"]

_MAIN: Final = "default"
_BELOW: Final = "organisations/"


def homes(data: str, database_url: str | None) -> list[Place]:
    """Skillyard's own folder and records, then those of each organisation."""
    from skillyard.access import Organisations

    main = home_of(_MAIN, data, database_url)
    assert main is not None  # noqa: S101 # that one there always is
    with contextlib.closing(main.database()) as database:
        names = [found.name for found in Organisations(lambda: database).all() if found.name != _MAIN]
    return [main, *(place for name in names if (place := home_of(_BELOW + name, data, database_url)))]


def home_of(name: str, data: str, database_url: str | None) -> Place | None:
    """The home that a backup calls so, with room for its records; None when it can be none of ours."""
    from skillyard.access import Organisation
    from skillyard.database import make_schema, separate_url
    from skillyard.document import is_name  # lower-case letters, digits and single dashes
    from skillyard.registry.backup import Place

    main = Place(_MAIN, Path(data), database_url)
    if name == _MAIN:
        return main
    if not name.startswith(_BELOW) or not is_name(name.removeprefix(_BELOW)):
        return None
    organisation = Organisation(name.removeprefix(_BELOW))
    own, schema = organisation.home(data), organisation.schema or ""
    with contextlib.closing(main.database()) as database, database.write() as connection:
        make_schema(connection, schema)
    return Place(name, Path(own), separate_url(own, schema, database_url))
