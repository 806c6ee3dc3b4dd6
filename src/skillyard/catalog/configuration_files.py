"""The files that may configure something, read into tables whose values nobody has checked yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skillyard.errors import InvalidConfiguration
from skillyard.reserved_files import refuse_reserved

__all__ = ["project_file", "read_toml"]

_TOML: Final = "skillyard.toml"
_PYPROJECT: Final = "pyproject.toml"
_SHIP: Final = "ship.json"
_LARGEST: Final = 1024 * 1024
_MOST_DOTS: Final = 300  # on one line; a key of many parts takes the square of their number to read


def project_file(folder: str) -> tuple[str, Mapping[str, object]] | None:
    """The file of that folder that configures something, and what it says; None when there is none.

    Raises:
        InvalidConfiguration: it cannot be read, or is not TOML or JSON.
    """
    for name, sections in ((_TOML, ()), (_PYPROJECT, ("tool", "skillyard"))):
        path = f"{folder.rstrip('/')}/{name}"
        if (values := read_toml(path, sections)) is not None:
            return path, values
    path = f"{folder.rstrip('/')}/{_SHIP}"
    values = _read_ship(path)
    return None if values is None else (path, values)


def read_toml(path: str, sections: tuple[str, ...]) -> Mapping[str, object] | None:
    """The table at `sections`; None when there is no such file or no such table.

    Raises:
        InvalidConfiguration: the file cannot be read, or is not TOML.
    """
    data = _bytes(path)
    if data is None or (sections and b"tool.skillyard" not in data):
        return None
    import tomllib  # only when there is a file to read: it is slow to import

    try:
        if any(line.count(b".") > _MOST_DOTS for line in data.splitlines()):
            raise ValueError(f"a line has more than {_MOST_DOTS} dots")
        values: object = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _not(path, "TOML", error) from None
    for section in sections:
        values = values.get(section) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else None


def _read_ship(path: str) -> Mapping[str, object] | None:
    """The `skills` block of a ship.json in the words of skillyard.toml; None when there is none."""
    data = _bytes(path)
    if data is None:
        return None
    import json

    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _not(path, "JSON", error) from None
    block = values.get("skills") if isinstance(values, dict) else None
    if not isinstance(block, dict):
        return None
    names = {"paths": "paths", "allowExternalPaths": "allow-external-paths", "promptSection": "prompt-section"}
    return {"skills": {ours: block[theirs] for theirs, ours in names.items() if block.get(theirs) is not None}}


def _bytes(path: str) -> bytes | None:
    try:
        refuse_reserved(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _closed(path, error) from None
    try:
        return os.read(descriptor, _LARGEST)
    except OSError as error:
        raise _closed(path, error) from None
    finally:
        os.close(descriptor)


def _not(path: str, form: str, error: Exception) -> InvalidConfiguration:
    if isinstance(error, UnicodeDecodeError):
        return InvalidConfiguration(f"{path} is not UTF-8 text", hint="save the file as UTF-8", file=path)
    return InvalidConfiguration(f"{path} is not {form}: {error}", hint="fix the line it names", file=path)


def _closed(path: str, error: OSError) -> InvalidConfiguration:
    hint = "make it a file that this user may read, or take it away"
    return InvalidConfiguration(f"{path} cannot be read: {error.strerror}", hint=hint, file=path)
