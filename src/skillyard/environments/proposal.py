"""The proposal: what a skill's scripts and texts import, call and install, held against what it was granted.

It is read, never run, and it is no permission: nothing is given to a skill before somebody agrees. Imports of the skill's own
modules and of the standard library are left out; files over the caps are not looked at.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from skillyard.environments.declared import declared_needs
from skillyard.environments.grants import NO_GRANT, SkillGrant, npm_package, package_key, python_package
from skillyard.environments.program_table import (
    COMMON,
    PROGRAMS,
    PROGRAMS_OF_PACKAGES,
    distribution_of,
    find_program,
    install_hint,
    npm_package_of,
)
from skillyard.environments.script_block import read_script_block
from skillyard.environments.script_uses import (
    TEXT_LIMIT,
    Imported,
    called_programs,
    code_blocks,
    install_lines,
    javascript_uses,
    python_uses,
)
from skillyard.errors import FileProblem, InvalidInput, NotExecutable
from skillyard.paths import read_inside
from skillyard.wire import WireForm, wire

_PYTHON: Final = (".py", ".pyw")
_NODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".jsx", ".tsx")
_SHELL: Final = (".sh", ".bash")
_TEXTS: Final = (".md",)
_MOST_FILES: Final = 400
_MOST_TEXT: Final = 4 * 1024 * 1024
_MOST_EVIDENCE: Final = 3
_KNOWN: Final = frozenset(PROGRAMS) - COMMON
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class ProposedItem(WireForm):
    """One package or program: `kind` (`packages`, `npm` or `programs`), its name, and where it is needed, as `file:line`.

    `declared` says that the skill itself declares it, `state` whether it is `granted`, `missing` (granted, and not on this
    machine) or only `proposed`.
    """

    kind: str
    name: str
    where: tuple[str, ...] = ()
    declared: bool = False
    state: str = "proposed"


@dataclass(frozen=True, slots=True)
class SkillNeeds(WireForm, also=("proposed", "command")):
    """Everything a skill seems to need, each with its state; `granted` is what it was given.

    `ignored` has a sentence for each declaration that names no package; `name` is how commands name the skill.
    """

    name: str
    items: tuple[ProposedItem, ...] = ()
    granted: SkillGrant = NO_GRANT
    ignored: tuple[str, ...] = field(default=(), metadata=wire(omit_empty=True))

    @property
    def proposed(self) -> SkillGrant:
        """What it would take to grant everything that is not granted yet."""
        packages, npm, programs = (self._names(kind, "proposed") for kind in ("packages", "npm", "programs"))
        return SkillGrant(packages, npm, programs)

    @property
    def command(self) -> str:
        """The command that grants it; empty when there is nothing to grant."""
        return f"skillyard environment allow {shlex.quote(self.name)}" if self.proposed else ""

    @property
    def missing_programs(self) -> tuple[tuple[str, str], ...]:
        """Programs that it needs or was granted and that are not on this machine, each with the way to get it."""
        needed = (item.name for item in self.items if item.kind == "programs")
        names = dict.fromkeys((*needed, *self.granted.programs))
        return tuple((name, install_hint(name)) for name in names if find_program(name) is None)

    @property
    def sentence(self) -> str:
        """One sentence on what it needs and has not: for lists and reports; empty when it has everything."""
        proposed = self.proposed
        lists = (("imports", proposed.packages), ("npm", proposed.npm), ("programs", proposed.programs))
        parts = [f"{word} {', '.join(names)}"[:_SHOWN] for word, names in lists if names]
        return "; ".join(parts)

    def _names(self, kind: str, state: str) -> tuple[str, ...]:
        return tuple(item.name for item in self.items if item.kind == kind and item.state == state)


def skill_needs(directory: str, name: str, granted: SkillGrant = NO_GRANT) -> SkillNeeds:
    """What the skill in `directory` needs; blocks for as long as reading its scripts takes, at most 4 MiB of text."""
    declared = declared_needs(directory)
    reader = _SkillReader(directory)
    for kind in ("packages", "npm", "programs"):
        for written in getattr(declared.grant, kind):
            reader.add(kind, written, "", declared=True)
    reader.read_files()
    items = tuple(_with_state(item, granted) for item in reader.items())
    return SkillNeeds(name, items, granted, declared.ignored)


def _with_state(item: ProposedItem, granted: SkillGrant) -> ProposedItem:
    has = {package_key(item.kind, one) for one in getattr(granted, item.kind)}
    if package_key(item.kind, item.name) not in has:
        return item
    there = item.kind != "programs" or find_program(item.name) is not None
    return ProposedItem(item.kind, item.name, item.where, item.declared, "granted" if there else "missing")


class _SkillReader:
    """Collects what the files of one skill need."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._found: dict[tuple[str, str], tuple[str, bool, list[str]]] = {}
        self._own: set[str] = set()

    def add(self, kind: str, written: str, where: str, *, declared: bool = False) -> None:
        """Note one need; the first spelling stays, and what declares a version comes first."""
        key = (kind, package_key(kind, written))
        name, was_declared, places = self._found.setdefault(key, (written, declared, []))
        self._found[key] = (name, was_declared or declared, places)
        if where and len(places) < _MOST_EVIDENCE and where not in places:
            places.append(where)
        for program in PROGRAMS_OF_PACKAGES.get(package_key(kind, written), ()) if kind != "programs" else ():
            self.add("programs", program, where)

    def items(self) -> Iterator[ProposedItem]:
        """What was found: packages, npm, programs, each by name."""
        order = {"packages": 0, "npm": 1, "programs": 2}
        for (kind, _), (name, declared, places) in sorted(
            self._found.items(), key=lambda pair: (order[pair[0][0]], pair[0][1])
        ):
            yield ProposedItem(kind, name, tuple(places), declared)

    def read_files(self) -> None:
        """Look at every script and text of the skill, within the caps."""
        files = sorted(_files(self._directory))[:_MOST_FILES]
        self._own = {part for file in files if file.endswith(_PYTHON) for part in PurePosixPath(file).with_suffix("").parts}
        left = _MOST_TEXT
        for file in files:
            try:
                data = read_inside(self._directory, file, limit=TEXT_LIMIT)
            except (FileProblem, OSError):
                continue
            left -= len(data)
            if left < 0:
                return
            self._read(file, data)

    def _read(self, file: str, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        if file.endswith(_PYTHON):
            self._read_block(file, data)
            self._python(file, text, 1)
        elif file.endswith(_NODE):
            self._javascript(file, text, 1)
        elif file.endswith(_SHELL):
            self._programs(file, called_programs(text, _KNOWN))
        else:
            blocks = code_blocks(text)
            for code, first in blocks.python:
                self._python(file, code, first)
            for code, first in blocks.javascript:
                self._javascript(file, code, first)
            for code, first in blocks.shell:
                self._programs(file, called_programs(code, _KNOWN, first))
        if "install" in text or " add " in text:
            for kind, package, line in install_lines(text):
                self.add(kind, package, f"{file}:{line}")

    def _read_block(self, file: str, data: bytes) -> None:
        try:
            for package in read_script_block(data).dependencies:
                self.add("packages", package, f"{file}:1", declared=True)
        except NotExecutable:
            return  # a run says so

    def _python(self, file: str, code: str, first: int) -> None:
        uses = python_uses(code, _KNOWN)
        for one in uses.imports:
            top = one.name.partition(".")[0]
            distribution = None if top in self._own else distribution_of(one.name)
            if distribution and _is_package(distribution):
                self.add("packages", distribution, f"{file}:{one.line + first - 1}")
        self._programs(file, uses.programs, first)

    def _javascript(self, file: str, code: str, first: int) -> None:
        uses = javascript_uses(code, _KNOWN)
        for one in uses.imports:
            package = npm_package_of(one.name)
            if package and _is_npm(package):
                self.add("npm", package, f"{file}:{one.line + first - 1}")
        self._programs(file, uses.programs, first)

    def _programs(self, file: str, called: Iterator[Imported] | tuple[Imported, ...], first: int = 1) -> None:
        for one in called:
            self.add("programs", one.name, f"{file}:{one.line + first - 1}")


def _is_package(name: str) -> bool:
    try:
        return bool(python_package(name))
    except InvalidInput:
        return False


def _is_npm(name: str) -> bool:
    try:
        return bool(npm_package(name))
    except InvalidInput:
        return False


def _files(directory: str) -> Iterator[str]:
    """The scripts and texts of a skill, without hidden folders and installed packages."""
    endings = (*_PYTHON, *_NODE, *_SHELL, *_TEXTS)
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = list(os.scandir(f"{directory}/{folder}"))
        except OSError:
            continue
        for entry in entries:
            name = f"{folder}{entry.name}"
            if entry.name.startswith(".") or entry.name in ("node_modules", "__pycache__"):
                continue
            if entry.is_dir(follow_symlinks=False) and depth < 8:
                waiting.append((f"{name}/", depth + 1))
            elif entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(endings):
                yield name
