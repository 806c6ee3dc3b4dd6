"""The files of one skill: what is there, of which type and media type, and how much."""

from __future__ import annotations

import mimetypes
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from skillyard.paths import real_path

# The machine's own table calls .ts a video and does not know .md everywhere, so the types skills are made of are fixed here.
_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".py": "text/x-python",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".ts": "text/typescript",
    ".tsx": "text/typescript",
    ".sh": "text/x-shellscript",
    ".bash": "text/x-shellscript",
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".csv": "text/csv",
    ".html": "text/html",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".xml": "application/xml",
    ".xsd": "application/xml",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".ttf": "font/ttf",
}


def media_type(name: str, otherwise: str = "application/octet-stream") -> str:
    """The media type of the file `name`; `otherwise` when the name does not tell."""
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
_DENIED: Final = frozenset(("id_rsa", "id_ed25519", ".ssh", ".git"))
_MAX_FILES: Final = 20_000
_MAX_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill: `name` is its path relative to the skill's folder, `path` the absolute one, `size` in bytes."""

    name: str
    path: str
    type: FileType
    size: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files of a skill, counted and classed (row 003-5); paths are relative, sorted, in POSIX form."""

    has_skill_md: bool
    has_scripts: bool
    has_references: bool
    script_files: tuple[str, ...]
    reference_files: tuple[str, ...]
    template_files: tuple[str, ...]
    total_files: int
    total_size_bytes: int

    def to_dict(self) -> dict[str, object]:
        """The inventory as document 003 writes it, in camel case."""
        return {
            "hasSkillMd": self.has_skill_md,
            "hasScripts": self.has_scripts,
            "hasReferences": self.has_references,
            "scriptFiles": list(self.script_files),
            "referenceFiles": list(self.reference_files),
            "templateFiles": list(self.template_files),
            "totalFiles": self.total_files,
            "totalSizeBytes": self.total_size_bytes,
        }


def is_denied(relative: str) -> bool:
    """Whether a component is never shown: `.env*`, `id_rsa`, `id_ed25519`, `.ssh`, `.git` (row 003-10)."""
    parts = relative.lower().split("/")
    return any(part in _DENIED or part.startswith(".env") for part in parts)


def list_files(directory: str, *, skip: str | None = None) -> tuple[SkillFile, ...]:
    """Every file of the skill, sorted by path, without `skip` (the SKILL.md), build output, lock files and denied names.

    A link is listed when it leads to a file inside the skill; a linked folder is not entered.
    """
    files = (
        SkillFile(name, f"{directory}/{name}", file_type(name), size)
        for name, size in walk_files(directory, skip_built=True)
        if name != skip
    )
    return tuple(sorted(files, key=lambda file: file.name))


def take_inventory(directory: str, *, skill_file: str = "SKILL.md") -> Inventory:
    """Count and class every file that `list_files` lists, and the SKILL.md; the size is the sum of the files' sizes (D-8)."""
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
    """The class of row 001-10, by extension first."""
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
    by_folder = {"scripts": "script", "references": "reference", "reference": "reference", "templates": "template"}
    if top in by_folder:
        return by_folder[top]
    if low.endswith(_MORE_SCRIPTS):
        return "script"
    if _is_template(low):
        return "template"
    return "reference" if low.endswith(".md") else "other"


def walk_files(directory: str, *, skip_built: bool) -> Iterator[tuple[str, int]]:
    """Relative path and size of every file that may be read; with `skip_built` without build output and lock files."""
    real = real_path(directory)
    for count, found in enumerate(_walk(real, "", 0, skip_built=skip_built)):
        if count >= _MAX_FILES:
            return
        yield found


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
        if not entry.is_file():  # asked first: the kernel follows forty links, we would follow a chain of thousands
            return None
        if entry.is_symlink():
            target = real_path(entry.path)
            if not target.startswith(f"{root}/") or is_denied(target[len(root) + 1 :]):
                return None
        return entry.stat().st_size
    except OSError:
        return None
