"""Aliases of folders in texts for readers who must not learn where things are on the machine, such as messages of errors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillyard.paths import real_path

__all__ = ["replace_folders"]


def replace_folders(text: str, aliases: Mapping[str, str]) -> str:
    """`text` with each folder in it replaced by its alias, also where it is written with its links resolved.

    >>> replace_folders("/srv/data/skills/pdf is gone", {"/srv/data": "~"})
    '~/skills/pdf is gone'
    """
    if "/" not in text:
        return text
    known = {path.rstrip("/"): alias for folder, alias in aliases.items() for path in (real_path(folder), folder)}
    paths = sorted((path for path in known if path), key=len, reverse=True)
    pattern = "|".join(map(re.escape, paths))
    return re.sub(rf"(?:{pattern})(?![\w-])", lambda found: known[found[0]], text) if paths else text
