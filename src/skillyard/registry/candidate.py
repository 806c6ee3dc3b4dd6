"""A skill that may be installed: copied to where it waits, read, checked, measured, but not yet in its place."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skillyard.errors import InvalidSkill, LinkNotAllowed, SpecialNotAllowed
from skillyard.packages import IGNORED, FoundSkill, Limits, Origin, tree_digest, verify_tree
from skillyard.registry.fetched import Fetched
from skillyard.registry.powers import Powers, read_powers
from skillyard.registry.requirements import Requirements, read_requirements

if TYPE_CHECKING:
    from skillyard.document import Document

__all__ = ["Candidate", "Finding", "Scanner", "checked", "read_candidate", "staged"]

_MANIFEST: Final = "manifest.json"
_CHUNK: Final = 1024 * 1024
_ABANDONED: Final = (
    f"{_MANIFEST} is ignored: SKILL.md alone says what the skill is; `skillyard check --package` shows what the manifest adds"
)


class Finding(Protocol):
    """What a scanner says: advice only, it stops nothing."""

    def to_dict(self) -> Mapping[str, object]:
        """The finding as plain data, with at least a `message`."""


class Scanner(Protocol):
    """Looks for harm in the folder of one skill."""

    def __call__(self, directory: Path) -> Sequence[Finding]:
        """The findings, none when it looks fine."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One skill in `tree`; `digest` names its content, `size` is the sum of its files in bytes (D-8).

    `signer` is the public key of whoever signed it, `package_digest` names its package in the store.
    """

    skill_id: str
    name: str
    tree: Path
    origin: Origin
    digest: str
    size: int
    document: Document
    powers: Powers
    requirements: Requirements
    inventory: Mapping[str, object]
    skill_md_hash: str
    signer: str | None = None
    signed_at: str | None = None
    package_digest: str | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[Mapping[str, object], ...] = ()


def staged(found: FoundSkill, fetched: Fetched, within: Path, limits: Limits) -> tuple[Path, Origin]:
    """The skill's own folder below `within`, and its own origin: moved there when it was unpacked for us, else copied.

    A copy keeps the rules of archives: no links, no devices, safe names, the same limits; what is never packed is left out.

    Raises:
        ArchiveRefused: the folder breaks one of them.
    """
    path = "" if found.path == "." else found.path
    below = "/".join(part for part in (fetched.origin.path, path) if part)
    origin = replace(fetched.origin, path=below)
    if fetched.owned:
        target = within / f"skill-{os.urandom(6).hex()}"
        found.directory.rename(target)
        return target, origin
    return copied(found.directory, within, limits), origin


def copied(folder: Path, within: Path, limits: Limits) -> Path:
    """A copy of `folder` in a new folder below `within` that has reached the disk.

    Raises:
        ArchiveRefused: the folder holds what no package may.
    """
    from skillyard.packages.writing import new_staging

    with new_staging(within, limits) as writer:
        for path, mode in _walk(folder, ""):
            if stat.S_ISDIR(mode):
                writer.folder(path)
            elif stat.S_ISLNK(mode):
                raise LinkNotAllowed(f"{path!r} is a link", hint="put the file itself there", entry=path)
            elif not stat.S_ISREG(mode):
                raise SpecialNotAllowed(f"{path!r} is no regular file", hint="remove it", entry=path)
            else:
                writer.file(path, _pieces(folder, path), executable=bool(mode & 0o111))
    return Path(writer.path)


def _walk(root: Path, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(root / prefix) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in IGNORED or entry.name.endswith(".pyc"):
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                yield prefix + entry.name, mode
                continue
            below = list(_walk(root, f"{prefix}{entry.name}/"))
            yield from below or [(prefix + entry.name, mode)]


def _pieces(root: Path, path: str) -> Iterator[bytes]:
    from skillyard.paths import open_inside

    with os.fdopen(open_inside(root, path), "rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def read_candidate(tree: Path, origin: Origin, *, folder_name: str, skill_id: str | None = None) -> Candidate:
    """What is in `tree`: SKILL.md is the only truth about it (rows 003-1 to 003-7).

    `folder_name` is the name of the folder it came in, `skill_id` the id it has when it is installed already.
    """
    from skillyard.catalog.inventory import take_inventory
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    data = read_inside(tree, "SKILL.md", limit=DOCUMENT_LIMIT)
    document = parse_document(data, directory_name=folder_name)
    return Candidate(
        skill_id=skill_id or document.skill_id,
        name=document.metadata.name,
        tree=tree,
        origin=origin,
        digest=tree_digest(tree),
        size=sum(path.lstat().st_size for path in tree.rglob("*") if not path.is_dir()),
        document=document,
        powers=read_powers(tree, document),
        requirements=read_requirements(document),
        inventory=take_inventory(tree.as_posix()).to_dict(),
        skill_md_hash=hashlib.sha256(data).hexdigest(),
        warnings=(_ABANDONED,) if (tree / _MANIFEST).is_file() else (),
    )


def checked(candidate: Candidate, folder_name: str) -> Candidate:
    """The candidate with its warnings, and with whoever signed it.

    Raises:
        SignatureInvalid: it has a signature that does not hold.
        InvalidSkill: its SKILL.md lacks a name or a description, or cannot be read.
    """
    document = candidate.document
    errors = [found for found in document.diagnostics if found.severity == "error"]
    if not document.usable:
        reason = errors[0].message if errors else "it cannot be used"
        raise InvalidSkill(
            f"{folder_name or candidate.name}: SKILL.md: {reason}",
            hint=(errors[0].fix if errors else None) or "`skillyard check` shows everything that is wrong with it",
            diagnostics=[found.to_dict() for found in document.diagnostics],
        )
    told = tuple(f"SKILL.md:{found.line}: {found.message}" for found in document.diagnostics if found.severity != "info")
    signature = verify_tree(candidate.tree)
    return replace(
        candidate,
        warnings=(*candidate.warnings, *told),
        signer=signature.key if signature else None,
        signed_at=signature.signed_at if signature else None,
    )
