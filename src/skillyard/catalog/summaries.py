"""Summarize SKILL.md files as far as a list needs it, as plain values.

The first 4 KiB hold the front matter of nearly every file; more is read only when its closing fence is further down. The result
is a tuple of text and bytes: it is small, goes through a pipe or into the cache as it is, and includes the pieces of JSON that
never change, so that a list of ten thousand is put together by joining text.
"""

from __future__ import annotations

import json
import os
import stat
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Final

from skillyard.catalog.walk import LEGACY_FILE, OUTSIDE_BOUNDARY, SKILL_FILE, find_skill_files
from skillyard.document import HEADER_LIMIT, Diagnostic, NeedMore, Summary, summarize
from skillyard.paths import CLOEXEC, NOCTTY, NOFOLLOW, NONBLOCK, is_inside, real_path, refuse_reserved, slug

if TYPE_CHECKING:
    from skillyard.catalog.records import FileStamp, SkillFacts
    from skillyard.document import Profile


_FIRST_READ: Final = 4096
_LONGEST_READ: Final = HEADER_LIMIT + 4096
# A FIFO must not block and a link must not be followed: what is behind one is decided on its real path.
_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | NOCTTY


def find_and_read(root: str, folders: list[str], profile: Profile) -> list[tuple[FileStamp, SkillFacts] | None]:
    """The SKILL.md of each folder and its facts, or None where there is none."""
    return [_read_folder(root, folder, profile) for folder in folders]


def _read_folder(root: str, relative: str, profile: Profile) -> tuple[FileStamp, SkillFacts] | None:
    """Look into one folder by opening its SKILL.md, which gives more than `lstat` at the same cost."""
    directory = f"{root}/{relative}"
    try:
        descriptor = os.open(f"{directory}/{SKILL_FILE}", _FLAGS)
    except FileNotFoundError:
        return None
    except OSError:
        return _find_then_read(root, relative, profile)
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != stat.S_IFREG:
            return _find_then_read(root, relative, profile)
        folder = relative.rpartition("/")[2]
        summary = _summary(descriptor, SKILL_FILE, folder, profile)
    except OSError:
        return _find_then_read(root, relative, profile)
    finally:
        os.close(descriptor)
    stamp = (relative, SKILL_FILE, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
    return stamp, _facts(summary, directory, SKILL_FILE, folder, profile)


def _find_then_read(root: str, relative: str, profile: Profile) -> tuple[FileStamp, SkillFacts] | None:
    """The same for a SKILL.md that is a link or cannot be read."""
    (stamp,) = find_skill_files(root, [relative])
    return stamp and (stamp, read_facts(root, stamp, profile))


def read_facts(root: str, stamp: FileStamp, profile: Profile) -> SkillFacts:
    """The facts of the SKILL.md of one folder; for a file that cannot be read its diagnostics give the reason."""
    relative, file, mode = stamp[:3]
    directory = f"{root}/{relative}" if relative else root
    folder = _folder_name(directory)
    try:
        path = f"{directory}/{file}" if mode & 0o170000 == stat.S_IFREG else _real_file(directory, file, mode)
        refuse_reserved(path)
        descriptor = os.open(path, _FLAGS)
        try:
            summary = _summary(descriptor, file, folder, profile)
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        summary = _broken("file-unreadable", file, folder, message, "check the file's permissions")
    except _NotAFileError as error:
        summary = _broken("file-not-regular", file, folder, str(error), error.fix)
    return _facts(summary, directory, file, folder, profile)


def _facts(summary: Summary, directory: str, file: str, folder: str, profile: Profile) -> SkillFacts:
    if summary.diagnostics:
        summary = _with_legacy_metadata(summary, directory, file, folder, profile)
    return _pack(summary, folder)


def _folder_name(directory: str) -> str:
    """The name the folder goes by; the version link of an installed skill is named after its parent."""
    head, _, name = directory.rpartition("/")
    return head.rpartition("/")[2] if name == "current" else name


class _NotAFileError(Exception):
    """Something other than a readable file is called SKILL.md."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def _real_file(directory: str, file: str, mode: int) -> str:
    """The real path of a linked SKILL.md that stays inside its skill's folder."""
    if mode == OUTSIDE_BOUNDARY:
        raise _NotAFileError(
            "the folder is a link that leads out of the project",
            "move the skill into the project, or set skills.allow-external-paths to true",
        )
    if not stat.S_ISLNK(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "device, pipe or socket"
        raise _NotAFileError(f"{file} is a {kind}, not a file", f"put a text file named {file} there")
    path = real_path(f"{directory}/{file}")
    if not is_inside(path, directory):
        raise _NotAFileError(f"{file} is a link that leaves the skill's folder", "link the whole folder, or copy the file")
    if not os.path.exists(path):
        raise _NotAFileError(f"{file} is a broken link", "fix or remove the link")
    return path


def _summary(descriptor: int, file: str, folder: str, profile: Profile) -> Summary:
    data = os.read(descriptor, _FIRST_READ)
    complete = len(data) < _FIRST_READ
    try:
        return summarize(data, file=file, directory_name=folder, profile=profile, complete=complete)
    except NeedMore:
        data += os.read(descriptor, _LONGEST_READ - len(data))
    return summarize(data, file=file, directory_name=folder, profile=profile)


def _broken(rule: str, file: str, folder: str, message: str, fix: str) -> Summary:
    from skillyard.document import diagnose  # with it come all rules, which a good file never needs

    diagnostic = diagnose(rule, file=file, message=message, fix=fix)
    return Summary(name=folder, description="", usable=False, diagnostics=(diagnostic,))


def _with_legacy_metadata(summary: Summary, directory: str, file: str, folder: str, profile: Profile) -> Summary:
    """The summary of METADATA.yml when SKILL.md has no front matter and there is one (they are not merged)."""
    if not any(diagnostic.rule == "front-matter-missing" for diagnostic in summary.diagnostics):
        return summary
    legacy = legacy_header(directory)
    if legacy is None:
        return summary
    from skillyard.document import diagnose

    read = summarize(legacy, file=LEGACY_FILE, directory_name=folder, profile=profile)
    note = diagnose("legacy-metadata", file=file)
    return read._replace(diagnostics=(note, *read.diagnostics))


def legacy_header(directory: str) -> bytes | None:
    """The content of the folder's METADATA.yml between fences, or None when there is no such file."""
    try:
        descriptor = os.open(f"{directory}/{LEGACY_FILE}", _FLAGS)
    except OSError:
        return None
    try:
        return b"---\n" + os.read(descriptor, HEADER_LIMIT - 16).strip() + b"\n---\n"
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _pack(summary: Summary, folder: str) -> SkillFacts:
    name, description, usable, shown, version, kind, tools, keywords, phrases, invocable, has_entry, facets, diagnostics = (
        summary
    )
    shapes = [one.to_dict() for one in diagnostics]
    plain = tuple([tuple(shape.values()) for shape in shapes])
    details = (description, shown, version, kind, tools, keywords, phrases, invocable, has_entry, plain, facets)
    problem = None if usable else _problem(diagnostics)
    head = f'"name": {quote(name)}, "description": {quote(description)}'
    return slug(name, folder), problem, name, head, json.dumps(shapes) if shapes else "[]", details


def _problem(diagnostics: tuple[Diagnostic, ...]) -> str:
    errors = [diagnostic.message for diagnostic in diagnostics if diagnostic.severity == "error"]
    return errors[0] if errors else "its SKILL.md cannot be used"
