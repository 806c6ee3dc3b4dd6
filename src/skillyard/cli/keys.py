"""Where the keys of this machine are: `keys/NAME.pem` in Skillyard's home."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from skillyard.cli.failures import UsageProblem

__all__ = ["DEFAULT_KEY", "key_path", "key_paths"]

DEFAULT_KEY: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def key_path(name: str) -> Path:
    """The file of the key with that name; what has a slash in it is a file already.

    Raises:
        UsageProblem: it is no name.
    """
    if os.sep in name:
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageProblem(f"{name!r} is no name for a key", hint="letters, digits, dot, dash and underscore")
    return _folder() / f"{name}.pem"


def key_paths() -> list[Path]:
    """Every key, by name."""
    return sorted(_folder().glob("*.pem"))


def _folder() -> Path:
    from skillyard.catalog import home_directory

    return Path(home_directory()) / "keys"
