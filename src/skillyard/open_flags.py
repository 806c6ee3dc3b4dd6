"""How files are opened, on every platform: flags for `os.open` that are nothing where the system does not have them.

Windows has none of these but knows texts from bytes, so `CLOEXEC`, which stands in every call, also says bytes there.
"""

from __future__ import annotations

import os
from typing import Final

NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
HAS_FOLDER_DESCRIPTORS: Final = bool(DIRECTORY) and os.open in os.supports_dir_fd
"""Whether a folder can be opened, and files by names within it."""


def owner_id() -> int | None:
    """The id of the user that this process acts for, as files have it; None where files have no such owners."""
    ask = getattr(os, "geteuid", None)
    return None if ask is None else int(ask())
