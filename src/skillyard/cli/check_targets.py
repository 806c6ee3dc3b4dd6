"""The files that `skillyard check` is about: finding them, checking each, writing back what could be fixed."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import require_existing
from skillyard.cli.openers import discover_catalog
from skillyard.document import DOCUMENT_LIMIT, Diagnostic, Profile, check_document, diagnose, fix_document
from skillyard.errors import FileTooLarge, SkillNotFound, SkillyardError
from skillyard.files import replace_file
from skillyard.reserved_files import refuse_reserved

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from skillyard.catalog import Root, Skill


_ERROR: Final = "error"


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """One SKILL.md to check: its path as the person would write it, and the skill it belongs to, if any."""

    path: str
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a check found in one file, what it fixed there, and why it could not write what it would have fixed."""

    path: str
    diagnostics: tuple[Diagnostic, ...]
    fixed: tuple[Diagnostic, ...] = ()
    unwritten: str | None = None

    @property
    def ok(self) -> bool:
        """Whether no error is left."""
        return all(diagnostic.severity != _ERROR for diagnostic in self.diagnostics)

    def to_dict(self) -> dict[str, object]:
        """The file as `check --json` shows it; `fixed` is there only when something was."""
        shape: dict[str, object] = {
            "path": self.path,
            "ok": self.ok,
            "diagnostics": [diagnostic.to_dict() for diagnostic in self.diagnostics],
        }
        return shape | ({"fixed": [diagnostic.to_dict() for diagnostic in self.fixed]} if self.fixed else {})


def find_targets(arguments: argparse.Namespace) -> tuple[list[CheckTarget], Profile]:
    """The files the paths stand for (without paths: every skill of the catalog), and the profile to check them by.

    Raises:
        UsageProblem: a path does not exist.
        SkillNotFound: there is no SKILL.md at or below a path.
    """
    drafts, folders = _sorted_paths(arguments.paths)
    catalog = discover_catalog(arguments, roots=list(folders) if arguments.paths else arguments.root)
    if arguments.paths:
        _require_skills(catalog.roots, catalog.all())
    profile: Profile = arguments.profile or catalog.configuration.profile
    skills = {skill.path: skill for skill in reversed(catalog.all())}  # once each, when one path is inside another
    targets = [CheckTarget(_as_written(skill, folders), skill) for skill in reversed(skills.values())]
    return targets + [CheckTarget(path) for path in drafts], profile


def _sorted_paths(paths: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Files that no catalog would find, and folders: the absolute path of each and how it was written."""
    drafts, folders = [], {}
    for path in paths:
        written = Path(require_existing(path, hint="give a SKILL.md, a skill's folder or a folder of skills"))
        if written.is_dir():
            folders[os.path.abspath(path)] = path  # noqa: PTH100 # links stay as they were written
        elif written.name.lower() == "skill.md":
            folders[os.path.abspath(written.parent)] = str(written.parent)  # noqa: PTH100
        else:
            drafts.append(path)
    return drafts, folders


def _require_skills(roots: Sequence[Root], skills: Sequence[Skill]) -> None:
    inhabited = {skill.root.path for skill in skills}
    for root in roots:
        if root.status == "unreadable":
            raise SkillNotFound(
                f"{root.path} cannot be searched: {root.reason}", hint="let this user read it, or name another folder"
            )
        if root.path not in inhabited:
            raise SkillNotFound(
                f"there is no SKILL.md at or below {root.path}" + (f": {root.reason}" if root.reason else ""),
                hint=f"make a skill with `skillyard new NAME --description ... --in {root.path}`",
            )


def _as_written(skill: Skill, folders: Mapping[str, str]) -> str:
    """The path of the SKILL.md, beginning the way the person wrote the folder."""
    given = folders.get(skill.root.path)
    return str(Path(given, Path(skill.path).relative_to(skill.root.path))) if given else skill.path


def check_target(target: CheckTarget, *, profile: Profile, fix: bool = False) -> CheckedFile:
    """Check one file; with `fix` apply the safe fixes first and write the file in one step."""
    try:
        data = _read(target)
    except (SkillyardError, OSError) as error:
        return CheckedFile(target.path, _unreadable(target, error, profile))
    file, directory_name, files = _surroundings(target)
    applied: tuple[Diagnostic, ...] = ()
    unwritten = None
    if fix:
        fixed = fix_document(data, file=file, directory_name=directory_name, profile=profile)
        unwritten = _trouble_replacing(target, fixed.data) if fixed.data != data else None
        if unwritten is None:
            data, applied = fixed.data, fixed.applied
    found = check_document(data, file=file, directory_name=directory_name, profile=profile, files=files)
    return CheckedFile(target.path, found, applied, unwritten)


def _read(target: CheckTarget) -> bytes:
    if target.skill is not None:
        return target.skill.read_file(Path(target.skill.path).name, limit=DOCUMENT_LIMIT).data
    with open(target.path, "rb", opener=_without_waiting) as file:
        return file.read(DOCUMENT_LIMIT + 1)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, and refuse what would keep its reader waiting: a pipe, a terminal, a device."""
    refuse_reserved(path)
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return file


def _surroundings(target: CheckTarget) -> tuple[str, str, Sequence[str] | None]:
    """The file's name, its folder's name and the files there; of a draft's folder nothing is known."""
    if target.skill is None:
        return Path(target.path).name, "", None
    return Path(target.skill.path).name, Path(target.skill.directory).name, [file.name for file in target.skill.files()]


def _unreadable(target: CheckTarget, error: Exception, profile: Profile) -> tuple[Diagnostic, ...]:
    """What the catalog found out about a file that cannot be read as one, else what kept it from being read."""
    known = target.skill.diagnostics if target.skill else ()
    if any(diagnostic.severity == _ERROR for diagnostic in known):
        return known
    rule = "file-too-large" if isinstance(error, FileTooLarge) else "file-unreadable"
    message = error.message if isinstance(error, SkillyardError) else str(error)
    return (*known, diagnose(rule, file=Path(target.path).name, message=message, profile=profile))


def _trouble_replacing(target: CheckTarget, data: bytes) -> str | None:
    """Replace the file, or say why it cannot be done: the others are still to be fixed."""
    try:
        _replace(target, data)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _replace(target: CheckTarget, data: bytes) -> None:
    path = Path(target.skill.path if target.skill else target.path).resolve()  # a linked file stays linked
    replace_file(path, data, mode=stat.S_IMODE(path.stat().st_mode))
