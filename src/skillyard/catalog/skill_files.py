"""The files of one skill: what is there, of which type and how much; and one of them read within bounds."""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
import posixpath
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from skillyard.catalog.summaries import legacy_header
from skillyard.document import DOCUMENT_LIMIT, parse_document
from skillyard.errors import FileMissing, FileProblem, PathRefused, SkillUnusable
from skillyard.paths import is_inside, read_inside, real_path, safe_relative
from skillyard.plain_json import read_json
from skillyard.text import nearest
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.document import Document, Profile


# The machine's own table calls .ts a video and does not know .md everywhere, so the types skills are made of are fixed here.
_TYPES: Final = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".csv": "text/csv", ".html": "text/html",
    ".css": "text/css", ".py": "text/x-python", ".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/typescript",
    ".tsx": "text/typescript", ".sh": "text/x-shellscript", ".bash": "text/x-shellscript", ".json": "application/json",
    ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml", ".xml": "application/xml",
    ".xsd": "application/xml", ".pdf": "application/pdf", ".svg": "image/svg+xml", ".png": "image/png", ".ttf": "font/ttf",
}  # fmt: skip


def media_type(name: str, otherwise: str = "application/octet-stream") -> str:
    """The media type of the file `name`; `otherwise` when the name does not determine it."""
    return _TYPES.get(posixpath.splitext(name)[1].lower()) or mimetypes.guess_type(name)[0] or otherwise


FileType = Literal["markdown", "script", "template", "other"]

# fmt: off
_SKIPPED_FOLDERS: Final = frozenset((
    "node_modules", ".git", ".svn", ".hg", "__pycache__", ".pytest_cache", ".mypy_cache", ".tox", ".venv", "venv", ".env",
    "dist", "build", ".next", ".nuxt", ".cache", "coverage", ".nyc_output",
))
_SKIPPED_FILES: Final = frozenset((
    ".DS_Store", "Thumbs.db", ".gitignore", ".npmignore", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb",
    "poetry.lock", "uv.lock", "Pipfile.lock", "Cargo.lock", "composer.lock", "Gemfile.lock",
))
# fmt: on
_SCRIPTS: Final = (".py", ".js", ".ts", ".sh", ".bash")
_MORE_SCRIPTS: Final = (*_SCRIPTS, ".mjs", ".cjs", ".mts", ".zsh", ".rb", ".pl", ".ps1")
_CLASSES_OF_FOLDERS: Final = {
    "scripts": "script", "references": "reference", "reference": "reference", "templates": "template",
}  # fmt: skip
_DENIED: Final = frozenset(("id_rsa", "id_ed25519", ".ssh", ".git"))
_PARSED: Final = 4  # documents that are kept, for who asks again
_MAX_FILES: Final = 20_000
_MAX_DEPTH: Final = 32
LINKS: Final = ".fetched"
"""The folder beside installed skills with what they tell to fetch, by skill and digest."""
_LINKS_LIMIT: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkillFile(WireForm):
    """One file of a skill: `name` is its path relative to the skill's folder, `path` the absolute one, `size` in bytes."""

    name: str
    path: str = field(metadata=wire(hidden=True))
    type: FileType
    size: int


@dataclass(frozen=True, slots=True)
class Inventory(WireForm, camel_case=True):
    """The files of a skill, counted and classed; paths are relative, sorted, in POSIX form."""

    has_skill_md: bool
    has_scripts: bool
    has_references: bool
    script_files: tuple[str, ...]
    reference_files: tuple[str, ...]
    template_files: tuple[str, ...]
    total_files: int
    total_size_bytes: int


def is_denied(relative: str) -> bool:
    """Whether a component is never shown: `.env*`, `id_rsa`, `id_ed25519`, `.ssh`, `.git`."""
    parts = relative.lower().split("/")
    return any(part in _DENIED or part.startswith(".env") for part in parts)


def list_files(directory: str, *, skip: str | None = None) -> tuple[SkillFile, ...]:
    """Every file of the skill, sorted by path, without `skip` (the SKILL.md), build output, lock files and denied names.

    A link is listed when it leads to a file inside the skill; a linked folder is not entered.
    """
    files = sorted(walk_files(directory, skip_built=True))
    return tuple(SkillFile(name, f"{directory}/{name}", file_type(name), size) for name, size in files if name != skip)


def take_inventory(directory: str, *, skill_file: str = "SKILL.md") -> Inventory:
    """Count and class every file that `list_files` lists, and the SKILL.md; the size is the sum of the files' sizes."""
    classes: dict[str, list[str]] = {"script": [], "reference": [], "template": [], "other": []}
    count = size = 0
    has_skill_md = False
    for name, bytes_ in sorted(walk_files(directory, skip_built=True)):
        count, size = count + 1, size + bytes_
        if name == skill_file:
            has_skill_md = True
        else:
            classes[_class(name)].append(name)
    scripts, references, templates = (tuple(classes[key]) for key in ("script", "reference", "template"))
    return Inventory(has_skill_md, bool(scripts), bool(references), scripts, references, templates, count, size)


def file_type(name: str) -> FileType:
    """What kind of file it is, by extension first."""
    low = name.lower()
    if low.endswith(".md"):
        return "markdown"
    if low.endswith(_SCRIPTS):
        return "script"
    return "template" if _is_template(low) else "other"


def _is_template(low: str) -> bool:
    *folders, base = low.split("/")
    return "templates" in folders or "template" in base


def _class(name: str) -> str:
    """The class for the inventory: by the folder it is in, then by extension."""
    low = name.lower()
    top = low.split("/", 1)[0] if "/" in low else ""
    if by_folder := _CLASSES_OF_FOLDERS.get(top):
        return by_folder
    if low.endswith(_MORE_SCRIPTS):
        return "script"
    if _is_template(low):
        return "template"
    return "reference" if low.endswith(".md") else "other"


def walk_files(directory: str, *, skip_built: bool) -> Iterator[tuple[str, int]]:
    """Relative path and size of every file that may be read; with `skip_built` without build output and lock files."""
    return islice(_walk(real_path(directory), "", 0, skip_built=skip_built), _MAX_FILES)


def _walk(root: str, prefix: str, depth: int, *, skip_built: bool) -> Iterator[tuple[str, int]]:
    try:
        entries = sorted(os.scandir(f"{root}/{prefix}"), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        relative = prefix + entry.name
        if is_denied(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH and not (skip_built and entry.name in _SKIPPED_FOLDERS):
                yield from _walk(root, f"{relative}/", depth + 1, skip_built=skip_built)
        elif not (skip_built and entry.name in _SKIPPED_FILES) and (size := _size(root, entry)) is not None:
            yield relative, size


def _size(root: str, entry: os.DirEntry[str]) -> int | None:
    """The size of a regular file, or of the one inside the skill that a link leads to."""
    try:
        if not entry.is_file():  # checked first: the kernel follows forty links, we would follow a chain of thousands
            return None
        if entry.is_symlink():
            target = real_path(entry.path)
            if not target.startswith(f"{root}/") or is_denied(target[len(root) + 1 :]):
                return None
        return entry.stat().st_size
    except OSError:
        return None


_SHOWN: Final = 20
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
    (b"\0\x01\0\0", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)
# Bytes that do not occur in text: controls but for tab, newline, form feed, return and escape.
_CONTROLS: Final = bytes(set(range(32)) - {9, 10, 12, 13, 27}) + b"\x7f"


class HasFolder(Protocol):
    """What has a folder: a skill of the catalog, or an installed version."""

    @property
    def directory(self) -> str:
        """The folder."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file: its path on the disk, its bytes, and its text unless it is binary.

    `media_type` is for example `text/plain` or `image/png`. `note` says when the file was found under another spelling or is
    not UTF-8.
    """

    path: str
    data: bytes
    text: str | None
    media_type: str
    note: str | None = None

    @property
    def binary(self) -> bool:
        """Whether the file is not text."""
        return self.text is None

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self.data)


def read_file(skill: HasFolder, path: str, *, limit: int) -> FileContent:
    """The file at `path`; a spelling that differs in case only is accepted when one file fits, which the note reports.

    Raises:
        PathRefused: the path leaves the folder, also through a link, has a denied name, or is no regular file.
        FileMissing: no such file; `details["candidates"]` lists near names, or all when there are few.
        FileTooLarge: longer than `limit` bytes.
    """
    requested = safe_relative(path)
    root = real_path(skill.directory)
    relative, note = _located(root, requested)
    data = read_inside(root, _real_relative(root, relative), limit=limit)
    text, encoding = _decoded(data)
    notes = [part for part in (note, encoding) if part]
    return FileContent(relative, data, text, _media_type(relative, data, text), "; ".join(notes) or None)


@dataclass(frozen=True, slots=True)
class KeptLink(WireForm):
    """A kept link: a document or script that an installed skill refers to, as it was then; `sha256` names its bytes.

    Where it could not be kept `sha256` is empty, and `problem` says why.
    """

    kind: str
    address: str
    file: str
    line: int
    sha256: str = ""
    size: int = 0
    problem: str = ""


def links_folder(version: str | os.PathLike[str]) -> tuple[Path, str]:
    """Where the links of an installed version are kept: a folder of its skill beside the skills, and the name of its list."""
    path = Path(real_path(os.fspath(version)))
    return path.parent.parent / LINKS / path.parent.name, f"{path.name}.json"


def kept_links(version: str | os.PathLike[str]) -> tuple[KeptLink, ...]:
    """The links that were looked at when the version in this folder was installed; none when none were."""
    folder, name = links_folder(version)
    try:
        listed = read_json(read_inside(folder, name, limit=_LINKS_LIMIT).decode("utf-8"))
        return tuple(KeptLink(**one) for one in listed) if isinstance(listed, list) else ()
    except (FileProblem, OSError, ValueError, TypeError):
        return ()


def read_kept_link(version: str | os.PathLike[str], address: str, *, limit: int) -> FileContent:
    """The content of an address when the version in this folder was installed.

    Raises:
        FileMissing: nothing of that address is kept, or not what it was; `details["candidates"]` are those that are.
    """
    kept = {one.address: one for one in kept_links(version) if one.sha256}
    if address in kept:
        with contextlib.suppress(FileProblem, OSError):
            data = read_inside(links_folder(version)[0], kept[address].sha256, limit=limit)
            if hashlib.sha256(data).hexdigest() == kept[address].sha256:
                text, encoding = _decoded(data)
                notes = [f"kept when it was installed, sha256 {kept[address].sha256[:12]}", *([encoding] if encoding else [])]
                path = address.partition("?")[0]
                return FileContent(address, data, text, _media_type(path, data, text), "; ".join(notes))
    hint = "`fetch-links = true` in [packages] of your own skillyard.toml keeps such documents at the next install or update"
    raise FileMissing(f"nothing is kept of {address[:200]!r}", hint=hint, candidates=sorted(kept)[:20])


def read_document(skill_id: str, path: str, profile: Profile, copy: str | None = None) -> Document:
    """The parsed SKILL.md at `path`, with the metadata of METADATA.yml when it has no front matter itself.

    `copy` is a copy of the skill's folder to read instead.
    """
    directory, _, file = path.rpartition("/")
    root = real_path(copy or directory)
    try:
        data = read_inside(root, _real_relative(root, file), limit=DOCUMENT_LIMIT * 2)
    except (OSError, FileMissing, PathRefused) as error:
        raise SkillUnusable(
            f"{skill_id} cannot be read: {error}", hint="`skillyard list` shows what is wrong with it", id=skill_id
        ) from None
    folder = directory.rpartition("/")[2]
    document = _parsed(data, file, folder, profile)
    missing = any(diagnostic.rule == "front-matter-missing" for diagnostic in document.diagnostics)
    if missing and (header := legacy_header(root)):
        return _parsed(header + data, file, folder, profile)
    return document


@lru_cache(maxsize=_PARSED)
def _parsed(data: bytes, file: str, folder: str, profile: Profile) -> Document:
    """The document of these bytes: one run asks for it four times."""
    return parse_document(data, file=file, directory_name=folder, profile=profile)


def _real_relative(root: str, relative: str) -> str:
    """`relative` with links inside the skill resolved, so that it can be opened without following any."""
    real = real_path(f"{root}/{relative}")
    resolved = relative
    if real != f"{root}/{relative}":
        if not is_inside(real, root):
            raise PathRefused(
                f"{relative!r} is a link that leaves the skill's folder",
                hint="only files inside the skill's folder can be read",
            )
        resolved = os.path.relpath(real, root)
    for name in (relative, resolved):
        if is_denied(name):
            raise PathRefused(f"{name!r} is never shown: it may hold a secret", hint="keys, .env files and .git stay closed")
    return resolved


def _located(root: str, requested: str) -> tuple[str, str | None]:
    """The path of the file that is meant and a note when it is spelled otherwise."""
    if is_denied(requested) or os.path.isfile(f"{root}/{requested}"):
        return requested, None
    names = sorted(name for name, _ in walk_files(root, skip_built=False))
    alike = [name for name in names if _folded(name) == _folded(requested)]
    if len(alike) == 1:
        return alike[0], f"{requested!r} was found as {alike[0]!r}"
    if not alike and os.path.lexists(f"{root}/{requested}") and not os.path.isdir(f"{root}/{requested}"):
        return requested, None  # a device, or a link that leads out: opening it raises an error
    raise _missing(requested, alike, names, is_folder=os.path.isdir(f"{root}/{requested}"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _missing(requested: str, alike: list[str], names: list[str], *, is_folder: bool) -> FileMissing:
    below = [name for name in names if name.startswith(f"{requested}/")]
    near = alike or below or nearest(requested, names, limit=5)
    base = requested.rpartition("/")[2].casefold()
    near += [name for name in names if name.rpartition("/")[2].casefold() == base and name not in near]
    candidates = (near or names)[:_SHOWN]
    what = f"{requested!r} is a folder" if below or is_folder else f"there is no file {requested!r}"
    hint = f"files there are: {', '.join(candidates)}" if candidates else "the skill has no files"
    return FileMissing(what, hint=hint, candidates=candidates)


def _decoded(data: bytes) -> tuple[str | None, str | None]:
    """The text of a file and a note about its encoding; no text when it is binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and len(data) % 2 == 0:
        try:
            return data.decode("utf-16"), "read as UTF-16"
        except UnicodeDecodeError:
            return None, None
    if b"\0" in data:
        return None, None
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        pass
    if data.translate(None, _CONTROLS) != data or data.startswith(tuple(signature for signature, _ in _SIGNATURES)):
        return None, None
    return data.decode("latin-1"), "not UTF-8: read as Latin-1"


def _media_type(path: str, data: bytes, text: str | None) -> str:
    """The type that the content shows, else the one of the name where both agree on what is text."""
    by_name = media_type(path)
    if text is not None:
        return by_name if by_name.startswith("text/") else "text/plain"
    shown = next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), "application/octet-stream")
    return by_name if shown == "application/octet-stream" and not by_name.startswith("text/") else shown
