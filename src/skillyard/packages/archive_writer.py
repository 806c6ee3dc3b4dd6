"""From a skill's folder to an archive or a copy, by the rules of packages: the same tree always gives the same bytes.

Entries are sorted by the bytes of their paths, times are fixed, modes are 0644 or 0755. What is left out is listed in `IGNORED`
and reported in the result.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import (
    ArchiveRefused,
    ArchiveTooLarge,
    InvalidInput,
    LinkNotAllowed,
    NoSkillInside,
    SpecialNotAllowed,
    TooManyFiles,
    UnsafePath,
)
from skillyard.packages.archive_entries import (
    EntryNames,
    PackageLimits,
    check_total,
    file_too_large,
    new_staging,
    quoted_name,
    safe_name,
)
from skillyard.packages.digest import EntryKind, TreeEntry, digest_of, digest_of_entries, tree_entries
from skillyard.paths import read_inside, real_path, slug
from skillyard.text import limit_words

PackageFormat = Literal["zip", "tar.gz", "skill"]

IGNORED: Final = frozenset({
    ".DS_Store", ".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn", ".venv", "Thumbs.db", "__MACOSX",
    "__pycache__", "node_modules",
})  # fmt: skip
"""Files and folders that are never packed; files that end in `.pyc` neither."""

_SUFFIXES: Final[dict[PackageFormat, tuple[str, ...]]] = {
    "zip": (".zip",),
    "skill": (".skill",),
    "tar.gz": (".tar.gz", ".tgz"),
}
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first moment a zip archive can write
_DEFAULT: Final = PackageLimits()


@dataclass(frozen=True, slots=True)
class Package:
    """An archive that was made: `digest` is the tree's, `archive_sha256` the file's, `size` the file's bytes.

    `entries` are the paths in it, `ignored` those that were left out.
    """

    path: Path
    digest: str
    archive_sha256: str
    size: int
    entries: tuple[str, ...]
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    path: str
    kind: EntryKind
    data: bytes = b""


def pack(
    directory: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: PackageFormat | None = None,  # noqa: A002 # the word users know
    whole: bool = False,
    rooted: bool = False,
    limits: PackageLimits = _DEFAULT,
) -> Package:
    """Write the skill in `directory` to the archive `target`, in one step.

    `format` follows from the name of `target` when it is not given. With `whole` nothing is left out.
    A `.skill` archive, and one that is `rooted`, has one folder, named as the skill.

    Raises:
        NoSkillInside: there is no SKILL.md in the folder.
        ArchiveRefused: it has a link, or a name or a size that no package may have.
        InvalidInput: the format is unknown.
        OSError: it cannot be read or written.
    """
    from skillyard.files import write_output

    name = Path(target).name
    chosen = format or next((form for form, ends in _SUFFIXES.items() if name.lower().endswith(ends)), None)
    if chosen is None or chosen not in _WRITERS:
        raise InvalidInput(f"{format or name!r} is not a package format", hint="zip, tar.gz or skill")
    root = Path(real_path(directory))
    if not (root / "SKILL.md").is_file():
        raise NoSkillInside(f"{directory} has no file SKILL.md", hint="name the folder of one skill")
    ignored: list[str] = []
    items = _items(root, None if whole else ignored, limits)
    data = _WRITERS[chosen](items, _skill_folder(items, root.name) if rooted or chosen == "skill" else "")
    if len(data) > limits.archive:
        raise ArchiveTooLarge(
            f"the package is over {limit_words(limits.archive)}", hint="keep large data out of it", limit=limits.archive
        )
    write_output(target, data)
    digest = digest_of_entries((item.path, item.kind, hashlib.sha256(item.data).digest()) for item in items)
    paths = tuple(item.path for item in items)
    return Package(Path(target), digest, digest_of(data), len(data), paths, tuple(sorted(ignored)))


def _items(root: Path, ignored: list[str] | None, limits: PackageLimits) -> list[_Item]:
    """Everything that is packed, sorted; a folder only when it is empty."""
    names, total = EntryNames(limits), 0
    items: list[_Item] = []

    def without(path: str, entry: os.DirEntry[str]) -> bool:
        if ignored is None or not is_never_packed(path, entry):
            return False
        ignored.append(path)
        return True

    for path, kind, _ in sorted(walk_items(root, without), key=lambda entry: os.fsencode(entry.path)):
        names.claim(check_name(path, limits), folder=kind == "d")
        items.append(_Item(path, kind, b"" if kind == "d" else read_item(root, path, limits)))
        total += len(items[-1].data)
        check_total(total, limits)
    return items


def check_name(path: str, limits: PackageLimits) -> str:
    """`path` itself, when every system would write it so.

    Raises:
        UnsafePath: it is not in Unicode's composed form, or no name for a package.
        PathTooLong: it is too long or too deep.
    """
    if safe_name(path, limits) != path:
        raise UnsafePath(f"the name {quoted_name(path)} is not in Unicode's composed form", hint="rename it", entry=path)
    return path


def read_item(root: Path, path: str, limits: PackageLimits) -> bytes:
    """The bytes of one file below `root`. Raises ArchiveTooLarge: they are more than one file may have."""
    if (root / path).lstat().st_size > limits.file:
        raise file_too_large(path, limits.file)
    return read_inside(root, path, limit=limits.file)


def walk_items(root: Path, without: Callable[[str, os.DirEntry[str]], bool]) -> Iterator[TreeEntry]:
    """The entries below `root` that packages may have, without those that `without` excludes.

    Raises:
        ArchiveRefused: one is a link, a pipe, a device.
    """
    for entry in tree_entries(root, without):
        _check_kind(entry)
        yield entry


def _check_kind(entry: TreeEntry) -> None:
    if entry.kind == "l":
        raise LinkNotAllowed(f"{quoted_name(entry.path)} is a link", hint="put the file itself there", entry=entry.path)
    if entry.kind == "o":
        raise SpecialNotAllowed(f"{quoted_name(entry.path)} is not a regular file", hint="remove it", entry=entry.path)


def package_refusals(directory: str | os.PathLike[str], *, limits: PackageLimits = _DEFAULT) -> Iterator[ArchiveRefused]:
    """Everything for which the folder of a skill is refused as a package, one entry after the other; nothing is read.

    Raises:
        OSError: a folder cannot be listed.
    """
    names, total = EntryNames(limits), 0
    for entry in sorted(tree_entries(directory, is_never_packed), key=lambda entry: os.fsencode(entry.path)):
        try:
            _check_kind(entry)
            names.claim(safe_name(entry.path, limits), folder=entry.kind == "d")
            if entry.size > limits.file:
                raise file_too_large(entry.path, limits.file)
            check_total(total + entry.size, limits)
        except (ArchiveTooLarge, TooManyFiles) as error:
            yield error
            if "entry" not in error.details:
                return  # what comes after it is too much too
        except ArchiveRefused as error:
            yield error
        total += min(entry.size, limits.file)


def _skill_folder(items: list[_Item], folder: str) -> str:
    """The one folder of a rooted archive: the skill's own name, so that the folder it was packed from does not matter."""
    from skillyard.document import parse_document

    data = next(item.data for item in items if item.path == "SKILL.md")
    return slug(parse_document(data).metadata.name, folder) + "/"


def _zip(items: list[_Item], top: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for item in items:
            info = zipfile.ZipInfo(top + item.path + ("/" if item.kind == "d" else ""), _EPOCH)
            info.create_system = 3  # Unix, wherever this runs: the modes are written for it
            info.external_attr = (_full_mode(item) << 16) | (0x10 if item.kind == "d" else 0)
            method = zipfile.ZIP_STORED if item.kind == "d" else zipfile.ZIP_DEFLATED
            archive.writestr(info, item.data, method, 6)
    return buffer.getvalue()


def _tar_gz(items: list[_Item], top: str) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 6, buffer, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for item in (*_folders(items), *items) if top else items:
            info = tarfile.TarInfo((top + item.path).rstrip("/"))
            info.type = tarfile.DIRTYPE if item.kind == "d" else tarfile.REGTYPE
            info.size, info.mode = len(item.data), stat.S_IMODE(_full_mode(item))
            archive.addfile(info, io.BytesIO(item.data))
    return buffer.getvalue()


def _folders(items: list[_Item]) -> list[_Item]:
    """The folders that the items are in, from the top, for programs that make none by themselves."""
    above = {"/".join(parts[:depth]) for item in items if (parts := item.path.split("/")) for depth in range(len(parts))}
    return [_Item(path, "d") for path in sorted(above)]


def _full_mode(item: _Item) -> int:
    if item.kind == "d":
        return stat.S_IFDIR | 0o755
    return stat.S_IFREG | (0o755 if item.kind == "x" else 0o644)


_WRITERS: Final[dict[PackageFormat, Callable[[list[_Item], str], bytes]]] = {"zip": _zip, "skill": _zip, "tar.gz": _tar_gz}


def is_never_packed(_path: str, entry: os.DirEntry[str]) -> bool:
    """Whether an entry is left out of every package: one of `IGNORED`, or compiled Python."""
    return entry.name in IGNORED or entry.name.endswith(".pyc")


def copy_tree(
    directory: str | os.PathLike[str],
    within: str | os.PathLike[str],
    *,
    without: Callable[[str, os.DirEntry[str]], bool] = lambda _path, _entry: False,
    limits: PackageLimits = _DEFAULT,
    exact_names: bool = True,
    durable: bool = False,
) -> Path:
    """Copy what is in `directory` into a new folder `staging-<random>` in the folder `within`.

    `without` is called with each path and its entry; those for which it is true are left out. Names that are not in Unicode's
    composed form are refused, unless `exact_names` is false: they are composed then. `durable` waits until the disk has it all.

    Raises:
        ArchiveRefused: it has a link, or a name or a size that no package may have.
        OSError: it cannot be read or written.
    """
    root = Path(real_path(directory))
    with new_staging(within, limits, durable=durable) as writer:
        for path, kind, _ in sorted(walk_items(root, without)):
            if exact_names:
                check_name(path, limits)
            if kind == "d":
                writer.folder(path)
            else:
                writer.file(path, [read_item(root, path, limits)], executable=kind == "x")
    return Path(writer.path)
