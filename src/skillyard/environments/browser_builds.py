"""Where Playwright looks for a browser: a folder for each build it was made with. With these a granted Chromium is found there.

Playwright starts no browser by name: it wants the build that its own package names, below `PLAYWRIGHT_BROWSERS_PATH`. So each
place that a granted version of it would look at holds a small script that starts the Chromium of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from skillyard.plain_json import read_json

FOLDER: Final = "playwright"
"""The folder of the builds among the commands that are made for a process."""
_LISTS: Final = ("playwright/driver/package/browsers.json", "playwright-core/browsers.json")
_LARGEST: Final = 256 * 1024  # bytes of such a list; they have about four thousand
_REVISION: Final = re.compile(r"[0-9]{1,9}")
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "chromium": ("chrome-linux64/chrome", "chrome-linux-arm64/chrome", "chrome-linux/chrome"),
    "chromium-headless-shell": (
        "chrome-headless-shell-linux64/chrome-headless-shell",
        "chrome-headless-shell-linux-arm64/chrome-headless-shell",
        "chrome-linux/headless_shell",
    ),
}
"""By the name of a browser the places of its program in a build: newer versions of Playwright first."""


def browser_builds(packages: tuple[str, ...], script: str) -> dict[str, str]:
    """The commands that a Playwright in these folders of packages takes for its own Chromium: paths, each with `script`."""
    return {
        f"{FOLDER}/{name.replace('-', '_')}-{revision}/{place}": script
        for folder in packages
        for name, revision in _revisions(folder)
        for place in _PLACES[name]
    }


def _revisions(folder: str) -> Iterator[tuple[str, str]]:
    """The name and the revision of each Chromium that a Playwright in the folder was made with."""
    for place in _LISTS:
        try:
            with Path(folder, place).open("rb") as file:
                listed = read_json(file.read(_LARGEST).decode())
        except (OSError, ValueError):
            continue
        browsers = listed.get("browsers") if isinstance(listed, dict) else None
        for one in browsers if isinstance(browsers, list) else ():
            name, revision = (one.get("name"), one.get("revision")) if isinstance(one, dict) else (None, None)
            if name in _PLACES and isinstance(revision, str) and _REVISION.fullmatch(revision):
                yield str(name), revision
