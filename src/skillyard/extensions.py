"""Extensions of other packages: found by their entry points, imported when they are first used, named when they fail.

A package extends Skillyard by an entry point in one of four groups; docs/extensions.md says what each of them is called with::

    [project.entry-points."skillyard.fields"]
    team = "acme_skills:check_team"

Looking for them reads folder listings and the few files that name such a group, so that it can be done at every start. What a
process has found it keeps: a package that is installed later is found by the next process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, get_args

from skillyard.errors import ExtensionFailed

ExtensionKind = Literal["source", "field", "permission", "style"]
"""Where packages come from, a field of the front matter, a check before a skill is used, a style of the index."""

_GROUPS: Final[dict[ExtensionKind, str]] = {kind: f"skillyard.{kind}s" for kind in get_args(ExtensionKind)}
_MARK: Final = b"[skillyard."
_FILE: Final = "entry_points.txt"
_LARGEST: Final = 256 * 1024  # bytes of a file of entry points
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{1,39}")
_RESERVED: Final = frozenset(
    ("archive", "ext", "file", "folder", "ftp", "git", "github", "gitlab", "bitbucket", "codeberg", "http", "https", "mirror",
     "npm", "program", "ssh", "upload")
)  # fmt: skip
"""Names that an address begins with already; a source of such a name would be taken for it."""


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension: its kind and name, the package that brings it, and where its code is (`module:attribute`)."""

    kind: ExtensionKind
    name: str
    package: str
    version: str
    value: str

    @property
    def key(self) -> str:
        """How settings and messages name it: `field:team`."""
        return f"{self.kind}:{self.name}"

    def load(self) -> Any:
        """What the entry point names, imported now.

        Raises:
            ExtensionFailed: it cannot be imported, or is not what its kind requires.
        """
        loaded = _load(self)
        if isinstance(loaded, ExtensionFailed):
            raise loaded
        return loaded

    def failed(self, error: Exception | str) -> ExtensionFailed:
        """The error that names this extension and its package."""
        why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return ExtensionFailed(
            f"the extension {self.key} of {self.package} {self.version} failed: {' '.join(why.split())[:300]}",
            hint=f'update or remove {self.package}, or switch it off: [extensions] off = ["{self.key}"]',
            extension=self.key,
        )


@cache
def _load(extension: Extension) -> object:
    """What an extension names, or why it cannot be had: an import that failed is not tried again."""
    from importlib import import_module

    module, _, attribute = extension.value.partition(":")
    if extension.kind == "source" and extension.name.lower() in _RESERVED:
        return extension.failed(f"{extension.name!r} is the beginning of other addresses and cannot name a source")
    try:
        found: object = import_module(module.strip())
        for name in filter(None, attribute.strip().split(".")):
            found = getattr(found, name)
    except Exception as error:  # whatever the module of a plug-in raises
        return extension.failed(error)
    if not callable(getattr(found, "entry", None) if extension.kind == "style" else found):
        return extension.failed(
            "a style is an object with a method `entry`" if extension.kind == "style" else "it is not a function"
        )
    return found


@dataclass(frozen=True, slots=True)
class Extensions:
    """The extensions that the settings leave on: `enabled` switches all of them, `off` names single ones by `kind:name`."""

    enabled: bool = True
    off: frozenset[str] = frozenset()

    def of_kind(self, kind: ExtensionKind) -> tuple[Extension, ...]:
        """Those of one kind, by name."""
        return tuple(one for one in self.every() if one.kind == kind and self.uses(one))

    def find(self, kind: ExtensionKind, name: str) -> Extension | None:
        """The one of that kind and name, if it is there and not switched off."""
        return next((one for one in self.of_kind(kind) if one.name == name), None)

    def uses(self, extension: Extension) -> bool:
        """Whether the settings leave it on."""
        return self.enabled and extension.key not in self.off

    @staticmethod
    def every() -> tuple[Extension, ...]:
        """All that are installed, also those that are switched off, by kind and name; of two of one name the first found."""
        return _installed(tuple(sys.path))


NO_EXTENSIONS: Final = Extensions(enabled=False)
"""For callers that are to use none."""


@cache
def _installed(folders: tuple[str, ...]) -> tuple[Extension, ...]:
    found: dict[str, Extension] = {}
    for folder in dict.fromkeys(folders):
        for one in _in_folder(folder or "."):
            found.setdefault(one.key, one)
    return tuple(sorted(found.values(), key=lambda one: (get_args(ExtensionKind).index(one.kind), one.name)))


def _in_folder(folder: str) -> Iterator[Extension]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith((".dist-info", ".egg-info")))
    except OSError:  # an archive, or not there
        return
    for name in names:
        try:
            with open(f"{folder}/{name}/{_FILE}", "rb") as file:  # noqa: PTH123 # pathlib costs more than the file
                marked = _MARK in file.read(_LARGEST)
        except OSError:
            continue
        if marked:
            yield from _of_package(f"{folder}/{name}")


def _of_package(path: str) -> Iterator[Extension]:
    from importlib.metadata import Distribution
    from pathlib import Path

    distribution = Distribution.at(Path(path))
    package, version = distribution.metadata["Name"] or os.path.basename(path), distribution.metadata["Version"] or "0"  # noqa: PTH119
    for entry in distribution.entry_points:
        kind = next((kind for kind, group in _GROUPS.items() if group == entry.group), None)
        if kind and _NAME.fullmatch(entry.name):
            yield Extension(kind, entry.name, package, version, entry.value)
