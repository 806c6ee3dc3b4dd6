"""Skills of kind `static`: their output is a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillyard.errors import NotExecutable
from skillyard.paths import read_inside
from skillyard.plain_json import read_json

__all__ = ["has_data", "read_static"]

_LIMIT: Final = 10 * 1024 * 1024


def has_data(config: Mapping[str, object]) -> bool:
    """Whether a file is named."""
    return isinstance(_path(config), str)


def _path(config: Mapping[str, object]) -> object:
    return config.get("dataPath") or config.get("dataFile") or config.get("data_path")


def read_static(directory: str, config: Mapping[str, object]) -> object:
    """The content of `config.dataPath` (also `dataFile`), read as JSON unless `config.format` is `text`.

    The path is inside the skill's folder and nowhere else (defect D-21).

    Raises:
        NotExecutable: no path is declared, or the file is not what the format says.
        PathRefused: the path leaves the skill.
        FileMissing: there is no such file.
        FileTooLarge: it is over 10 MiB.
    """
    path = _path(config)
    if not isinstance(path, str):
        raise NotExecutable(
            "a static skill needs config.dataPath", hint="name a file of the skill, for example ./assets/data.json"
        )
    data = read_inside(directory, path, limit=_LIMIT)
    try:
        text = data.decode("utf-8-sig")
        return text if config.get("format", "json") == "text" else read_json(text)
    except ValueError as error:
        raise NotExecutable(f"{path!r} cannot be read: {error}", hint="use UTF-8 JSON, or set config.format to text") from None
