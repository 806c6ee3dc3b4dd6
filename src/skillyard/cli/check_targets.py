"""The files that `skillyard check` checks: found, read without waiting, and each checked with what is around it."""

from __future__ import annotations

import argparse
import errno
import os
import stat
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import discover_catalog
from skillyard.cli.screen import require_existing
from skillyard.document import DOCUMENT_LIMIT, RULES, Diagnostic, Profile, check_document, diagnose, fix_document
from skillyard.errors import FileTooLarge, SkillNotFound, SkillyardError
from skillyard.files import replace_file
from skillyard.paths import NOCTTY, NONBLOCK, refuse_reserved
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillyard.catalog import Root, Skill
    from skillyard.extensions import Extensions

_CURRENT: Final = "current"  # the link to the version of an installed skill that is used
_ERROR: Final = "error"
_REFUSALS: Final = 10  # of one skill that are named


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """One SKILL.md to check: its path as the person would write it, and the skill it belongs to, if any."""

    path: str
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class CheckedFile(WireForm, also=("ok",)):
    """The diagnostics of one file, what was fixed there, and why the fixes could not be written."""

    path: str
    diagnostics: tuple[Diagnostic, ...]
    fixed: tuple[Diagnostic, ...] = field(default=(), metadata=wire(omit_empty=True))
    unwritten: str | None = field(default=None, metadata=wire(hidden=True))

    @property
    def ok(self) -> bool:
        """Whether no error is left."""
        return all(diagnostic.severity != _ERROR for diagnostic in self.diagnostics)


def find_targets(arguments: argparse.Namespace) -> tuple[list[CheckTarget], Profile, Extensions]:
    """The files the paths stand for (without paths: every skill of the catalog), and the profile and extensions to check by.

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
    return targets + [CheckTarget(path) for path in drafts], profile, catalog.configuration.extensions


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


def check_target(
    target: CheckTarget,
    *,
    profile: Profile,
    fix: Callable[[str], bool] | None = None,
    extensions: Extensions | None = None,
) -> CheckedFile:
    """Check one file; with `fix` apply the safe fixes of the rules it chooses first and write the file in one step."""
    try:
        data = _read(target)
    except (SkillyardError, OSError) as error:
        return CheckedFile(target.path, _unreadable(target, error, profile))
    file, directory_name, files = _surroundings(target)
    applied: tuple[Diagnostic, ...] = ()
    unwritten = None
    if fix is not None:
        fixed = fix_document(data, file=file, directory_name=directory_name, profile=profile, only=fix)
        unwritten = _replacement_error(target, fixed.data) if fixed.data != data else None
        if unwritten is None:
            data, applied = fixed.data, fixed.applied
    diagnostics = check_document(
        data, file=file, directory_name=directory_name, profile=profile, files=files, extensions=extensions
    )
    return CheckedFile(target.path, (*diagnostics, *_package_refusals(target, file, profile)), applied, unwritten)


def _package_refusals(target: CheckTarget, file: str, profile: Profile) -> Sequence[Diagnostic]:
    """For what in its folder the skill cannot be installed or packed, in the profiles that look for it."""
    if target.skill is None or profile not in RULES["package-refused"].severity:
        return ()
    from skillyard.packages import package_refusals

    try:
        refused = list(islice(package_refusals(target.skill.directory), _REFUSALS + 1))
    except OSError:
        return ()  # what cannot be listed is a finding of its own
    more = (
        [diagnose("package-refused", file=file, message="and more such files", profile=profile)]
        if len(refused) > _REFUSALS
        else []
    )
    return [
        diagnose("package-refused", file=file, message=error.message, fix=error.hint or "", profile=profile)
        for error in refused[:_REFUSALS]
    ] + more


def _read(target: CheckTarget) -> bytes:
    if target.skill is not None:
        return target.skill.read_file(Path(target.skill.path).name, limit=DOCUMENT_LIMIT).data
    with open(target.path, "rb", opener=_without_waiting) as file:
        return file.read(DOCUMENT_LIMIT + 1)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, and refuse what would keep its reader waiting: a pipe, a terminal, a device."""
    refuse_reserved(path)
    file = os.open(path, flags | NONBLOCK | NOCTTY)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", path)
    return file


def _surroundings(target: CheckTarget) -> tuple[str, str, Sequence[str] | None]:
    """The file's name, its folder's name and the files there; a draft has no folder."""
    if target.skill is None:
        return Path(target.path).name, "", None
    name = _version_of(target) or Path(target.skill.directory).name
    return Path(target.skill.path).name, name, [file.name for file in target.skill.files()]


def _version_of(target: CheckTarget) -> str:
    """The folder of the installed skill of which this is the current version; empty for any other skill."""
    folder = Path(target.skill.directory) if target.skill else None
    return folder.parent.name if folder and folder.name == _CURRENT and folder.is_symlink() else ""


def _unreadable(target: CheckTarget, error: Exception, profile: Profile) -> tuple[Diagnostic, ...]:
    """The catalog's diagnostics of a file that cannot be read; without an error among them, one for `error` too."""
    diagnostics = target.skill.diagnostics if target.skill else ()
    if any(diagnostic.severity == _ERROR for diagnostic in diagnostics):
        return diagnostics
    rule = "file-too-large" if isinstance(error, FileTooLarge) else "file-unreadable"
    if isinstance(error, OSError) and error.errno == errno.EINVAL:
        rule = "file-not-regular"
    message = error.message if isinstance(error, SkillyardError) else str(error)
    return (*diagnostics, diagnose(rule, file=Path(target.path).name, message=message, profile=profile))


def _replacement_error(target: CheckTarget, data: bytes) -> str | None:
    """Replace the file; returns why it failed, or None, so that the remaining files are still fixed."""
    if _version_of(target):
        return "an installed version never changes; fix the skill where it comes from, and install that"
    try:
        _replace(target, data)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _replace(target: CheckTarget, data: bytes) -> None:
    path = Path(target.skill.path if target.skill else target.path).resolve()  # a linked file stays linked
    replace_file(path, data, mode=stat.S_IMODE(path.stat().st_mode))
