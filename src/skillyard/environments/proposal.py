"""What a skill needs beyond its grants: proposed from its scripts and texts, and read from how a run or a command of it failed.

The proposal holds what scripts and texts import, call and install against what was granted. They are read, never run, and it
is no permission: nothing is given to a skill before somebody agrees. Imports of the skill's own modules and of the standard
library are left out; files over the caps are not looked at. What a failed run or command was missing is read from the end of
what it wrote, with the grant that would give it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from skillyard.environments.declared import declared_needs, read_script_block
from skillyard.environments.grants import (
    NO_GRANT,
    NPM_WORD,
    PROGRAM_WORD,
    SkillGrant,
    npm_package,
    npm_parts,
    package_key,
    python_package,
)
from skillyard.environments.program_table import (
    COMMON,
    PROGRAMS,
    PROGRAMS_OF_PACKAGES,
    distribution_of,
    find_program,
    install_hint,
    npm_package_of,
)
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
from skillyard.sandbox import GrantedEnvironment
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


_TAIL: Final = 8_000
_LONGEST_COMMAND: Final = 20_000
_MOST_NAMED: Final = 20
_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z0-9_.]{1,100})'")
_NO_NODE_MODULE: Final = re.compile(r"Cannot find (?:module|package) '([^'\s]{1,200})'")
_PROGRAM: Final = re.compile(
    r"FileNotFoundError: \[Errno 2\] No such file or directory: '([A-Za-z0-9][A-Za-z0-9._+-]{0,63})'"
    r"|: ([A-Za-z0-9][A-Za-z0-9._+-]{0,63}): command not found"
    r"|spawn ([A-Za-z0-9][A-Za-z0-9._+-]{0,63}) ENOENT"
)


def missing_grant(stderr: str) -> SkillGrant:
    """What the run was missing by its standard error: one package or program, or nothing.

    A program that this machine has was not missing: what could not be found is then a file of that name.
    """
    end = stderr[-_TAIL:]
    matches = [match for pattern in (_MODULE, _NO_NODE_MODULE, _PROGRAM) for match in pattern.finditer(end)]
    if not matches:
        return SkillGrant()
    last = max(matches, key=lambda match: match.start())
    try:
        return _grant(last)
    except InvalidInput:
        return SkillGrant()


def _grant(match: re.Match[str]) -> SkillGrant:
    if match.re is _MODULE:
        package = distribution_of(match[1])
        return SkillGrant.read(packages=[package] if package else ())
    if match.re is _NO_NODE_MODULE:
        package = npm_package_of(match[1])
        return SkillGrant.read(npm=[package] if package else ())
    name = next(name for name in match.groups() if name)
    return SkillGrant.read(programs=[name] if find_program(name) is None else ())


def _is_own(directory: str, stderr: str) -> bool:
    modules = _MODULE.findall(stderr[-_TAIL:])
    top = modules[-1].partition(".")[0] if modules else ""
    places = (top, f"{top}.py", f"scripts/{top}", f"scripts/{top}.py")
    return bool(top) and any(Path(directory, place).exists() for place in places)


def missing_hint(stderr: str, skill_name: str, directory: str = "") -> str:
    """One sentence on which grant gives a failed run what it was missing; empty when it failed for something else.

    A module that the skill in `directory` has itself was not missing, it only was not found from where the script is.
    """
    missing = missing_grant(stderr)
    if missing.packages and directory and _is_own(directory, stderr):
        return ""
    if missing.programs:
        name = missing.programs[0]
        return f"the program {name} is not on this machine: {install_hint(name)}, then `--with {PROGRAM_WORD}{name}`"
    if not missing:
        return ""
    word = shlex.quote(next(iter(missing.words)))
    kind = "npm" if word.startswith(NPM_WORD) else "packages"
    name = word.removeprefix(NPM_WORD)
    return (
        f"`--with {word}` gives it for one run, `skillyard environment allow {shlex.quote(skill_name)} --with {word}` for "
        f'every run, or {kind} = ["{name}"] in the table [skills.{skill_name}] of your own skillyard.toml'
    )


def session_hint(command: str, output: str, environment: GrantedEnvironment) -> str:
    """One or two sentences about a command that has failed in a session: what it was missing, or could not install.

    Whoever runs the command cannot grant anything, so they say what to ask the operator for, and which packages that the
    command wanted to install are here already.
    """
    wanted = _installs(command)
    missing = wanted or missing_grant(output)
    here = _here(missing, environment) if wanted else SkillGrant()
    sentences = []
    if here:
        sentences.append(f"Already here, import or require it: {', '.join((*here.packages, *here.npm))}.")
    if missing.programs:
        name = missing.programs[0]
        sentences.append(f"The program {name} is not on this machine; the operator can install it: {install_hint(name)}.")
    elif absent := missing.without(here).words:
        words = " ".join(f"--with {shlex.quote(word)}" for word in absent)
        sentences.append(
            f"Not granted here: {', '.join(absent)}. Ask the operator for it (`skillyard environment allow SKILL {words}`), "
            "or do without."
        )
    return " ".join(sentences)


def _installs(command: str) -> SkillGrant:
    """The packages that a command wanted to install."""
    found: dict[str, list[str]] = {"packages": [], "npm": []}
    for kind, package, _ in install_lines(command[:_LONGEST_COMMAND]):
        if package not in found[kind] and len(found[kind]) < _MOST_NAMED:
            found[kind].append(package)
    return SkillGrant.read(packages=found["packages"], npm=found["npm"])


def _here(wanted: SkillGrant, environment: GrantedEnvironment) -> SkillGrant:
    """Those of the packages that the environment has, in whatever version."""
    distributions = set()
    if environment.python_packages and wanted.packages:
        with contextlib.suppress(OSError):
            names = (entry.name for entry in os.scandir(environment.python_packages) if entry.name.endswith(".dist-info"))
            distributions = {package_key("packages", name.partition("-")[0]) for name in names}
    return SkillGrant(
        packages=tuple(one for one in wanted.packages if package_key("packages", one) in distributions),
        npm=tuple(one for one in wanted.npm if _has_npm(environment.node_modules, npm_parts(one)[0])),
    )


def _has_npm(folder: str, name: str) -> bool:
    return bool(folder) and Path(folder, name, "package.json").is_file()
