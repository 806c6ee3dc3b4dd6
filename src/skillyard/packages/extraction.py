"""From an archive to a folder: its format by its first bytes, every rule about what may be in it, and the skills in a folder.

The whole archive is refused when one entry breaks a rule, and nothing of it stays. The error names the entry, the rule (its
code) and the fix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import ArchiveTooLarge, FileProblem, MalformedArchive, NoSkillInside
from skillyard.packages.archive_entries import PackageLimits
from skillyard.packages.digest import tree_digest
from skillyard.paths import CLOEXEC, NONBLOCK, is_regular
from skillyard.text import limit_words

ArchiveFormat = Literal["zip", "tar.gz", "tar"]

_OPEN: Final = os.O_RDONLY | CLOEXEC | NONBLOCK
_FORMATS_HINT: Final = "packages are zip (.zip, .skill), tar.gz (.tar.gz, .tgz) or tar"
_DEFAULT: Final = PackageLimits()


@dataclass(frozen=True, slots=True)
class Extracted:
    """An unpacked archive.

    `tree` is the new folder, `digest` its tree digest, `files` the paths of its files in the archive's order, `size` their
    bytes. `flagged` are files that some program reads by itself when it finds them (`.mcp.json`, `.claude/…`, any hidden
    name): they are kept, and nothing here acts on them.
    """

    tree: Path
    digest: str
    format: ArchiveFormat
    files: tuple[str, ...]
    size: int
    flagged: tuple[str, ...] = ()


def sniff(beginning: bytes) -> ArchiveFormat | None:
    """The format of a file that begins with these bytes (512 are enough); `None` when it is none of ours."""
    from skillyard.packages.tar_reader import is_tar_header

    if beginning.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if beginning.startswith(b"\x1f\x8b\x08"):
        return "tar.gz"
    return "tar" if is_tar_header(beginning[:512]) else None


def extract(archive: str | os.PathLike[str], staging: str | os.PathLike[str], limits: PackageLimits = _DEFAULT) -> Extracted:
    """Unpack `archive` into a new folder `staging-<random>` (mode 0700) inside the folder `staging`.

    What is written has reached the disk: the caller may rename the new folder to its target. When this raises, it is deleted.

    Raises:
        ArchiveRefused: the archive, or one entry of it, breaks a rule.
        OSError: it cannot be read, or nothing can be written to `staging`.
    """
    source = os.open(archive, _OPEN)
    try:
        return _extract(source, os.fspath(archive), staging, limits)
    finally:
        os.close(source)


def _extract(source: int, name: str, staging: str | os.PathLike[str], limits: PackageLimits) -> Extracted:
    from skillyard.packages.archive_entries import new_staging
    from skillyard.packages.tar_reader import extract_tar
    from skillyard.packages.zip_reader import extract_zip

    length = _checked_length(source, name, limits)
    format_ = sniff(os.pread(source, 512, 0))
    if format_ is None:
        raise MalformedArchive(f"{Path(name).name} is not a readable archive", hint=_FORMATS_HINT)
    with new_staging(staging, limits) as writer:
        if format_ == "zip":
            extract_zip(source, length, writer, limits)
        else:
            extract_tar(source, writer, limits, compressed=format_ == "tar.gz")
        digest = tree_digest(writer.path)
    return Extracted(Path(writer.path), digest, format_, tuple(writer.files), writer.size, hidden_files(writer.files))


def _checked_length(source: int, name: str, limits: PackageLimits) -> int:
    import stat

    status = os.fstat(source)
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISDIR(status.st_mode):
            raise MalformedArchive(f"{name} is a folder, not a file", hint=_FORMATS_HINT)
        raise MalformedArchive(f"{name} is a pipe or a device, not a file", hint="save what it gives to a file, and name that")
    if status.st_size > limits.archive:
        raise ArchiveTooLarge(
            f"{Path(name).name} is over {limit_words(limits.archive)}",
            hint="keep large data out of the package",
            limit=limits.archive,
        )
    return status.st_size


def hidden_files(files: list[str]) -> tuple[str, ...]:
    """The files with a hidden name on their path."""
    return tuple(path for path in files if path.startswith(".") or "/." in path)


_FILE: Final = "SKILL.md"
_NOT_SEARCHED: Final = frozenset((".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", "venv", "__MACOSX"))
_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One folder with a SKILL.md: where it is, its path from the searched folder (`.` for that itself), and its metadata."""

    directory: Path
    path: str
    name: str
    skill_id: str
    description: str
    version: str | None = None


def find_skills(tree: str | os.PathLike[str]) -> tuple[FoundSkill, ...]:
    """Every skill in `tree`, by path; what lies below a skill belongs to it. Links are not followed.

    A SKILL.md that is a folder, a pipe or a link makes no skill; one that cannot be read, or is too large, makes one that is
    called as its folder.
    """
    root = Path(tree)
    return tuple(sorted((_read_skill(root, path) for path in _folders(root, "", 0)), key=lambda skill: skill.path))


def choose_skills(skills: Sequence[FoundSkill], names: Sequence[str] = ()) -> tuple[FoundSkill, ...]:
    """Those of `skills` that are named by name, id or path; all of them when none is named.

    Raises:
        NoSkillInside: there is none at all, or none of a name in `names`.
    """
    if not skills:
        raise NoSkillInside(
            "there is no skill in it: no folder has a file SKILL.md", hint="a skill is a folder with a SKILL.md"
        )
    chosen: dict[str, FoundSkill] = {}
    for name in names:
        fitting = [skill for skill in skills if name.strip("/") in (skill.name, skill.skill_id, skill.path)]
        if not fitting:
            there = sorted(skill.name for skill in skills)
            few = ", ".join(there[:10]) + (", …" if len(there) > 10 else "")
            raise NoSkillInside(f"there is no skill {name!r} in it", hint=f"there are {few}", candidates=there)
        chosen |= {skill.path: skill for skill in fitting}
    return tuple(chosen.values()) if names else tuple(skills)


def _folders(root: Path, prefix: str, depth: int) -> Iterator[str]:
    if is_regular(root / prefix / _FILE):
        yield prefix.rstrip("/") or "."
        return
    if depth == _DEPTH:
        return
    with os.scandir(root / prefix) as entries:
        below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_SEARCHED]
    for name in sorted(below):
        yield from _folders(root, f"{prefix}{name}/", depth + 1)


def _read_skill(root: Path, path: str) -> FoundSkill:
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    folder = root if path == "." else root / path
    try:
        data = read_inside(folder, _FILE, limit=DOCUMENT_LIMIT)
    except FileProblem:  # it stops only whoever wants this very skill
        data = b""
    document = parse_document(data, directory_name=folder.name)
    metadata = document.metadata
    return FoundSkill(folder, path, metadata.name, document.skill_id, metadata.description, metadata.version)
