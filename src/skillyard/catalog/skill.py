"""One skill of a catalog; an installed one by its folder, and its version kept from being removed while it is used.

A catalog of ten thousand skills is built on every start of the command line, so a `Skill` is a thin view on one row of plain
values; what few callers use (diagnostics, files, the document) is made at the first use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from skillyard.catalog.catalog_rows import Root, SkillRow, SkillState, Source, Status
from skillyard.document import Diagnostic, Profile
from skillyard.errors import SkillNotFound
from skillyard.paths import CLOEXEC, DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW
from skillyard.text import is_label
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from pathlib import Path

    from skillyard.catalog.skill_files import FileContent, Inventory, KeptLink, SkillFile
    from skillyard.document import Document


_LONGEST_ID: Final = 100


class Skill(
    WireForm,
    also=("id", "name", "description", "source", ("directory", "location"), "status", "reason", "state", "diagnostics"),
):
    """One skill folder as the catalog sees it; cheap to make, read-only, and it reads its files only when they are used."""

    __slots__ = ("_row", "profile", "root")

    root: Root
    profile: Profile

    def __init__(self, row: SkillRow, root: Root, profile: Profile) -> None:
        self._row = row
        self.root = root
        self.profile = profile

    def __repr__(self) -> str:
        return f"<Skill {self.id} {self.status} {self.directory}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Skill) and self._row == other._row and self.root.path == other.root.path

    def __hash__(self) -> int:
        return hash((self.id, self.root.path))

    def is_unchanged(self, row: SkillRow, root: Root) -> bool:
        """Whether this skill is what that row of a newer state says."""
        return self._row == row and self.root == root

    def located(self, relative: str) -> Skill:
        """This skill read from another folder of its root, for example the exact version behind a `current` link."""
        stamp = (relative, *self._row[4][1:])
        return Skill((*self._row[:4], stamp, *self._row[5:]), self.root, self.profile)

    @property
    def id(self) -> str:
        """`source:slug`, unique in the catalog; a second of the same source and slug has `#2` appended."""
        return self._row[0]

    @property
    def status(self) -> Status:
        """Whether the skill is offered, and if not, why."""
        return self._row[1]

    @property
    def reason(self) -> str | None:
        """One sentence when the status is not `ok`."""
        return self._row[2]

    @property
    def usable(self) -> bool:
        """Whether the status is `ok`."""
        return self._row[1] == "ok"

    @property
    def source(self) -> Source:
        """Where the skill comes from."""
        return self.root.source

    @property
    def label(self) -> str:
        """How our own texts refer to the skill: by its name if that is a plain one, else by its `reference`."""
        return self.name if is_label(self.name) else self.reference

    @property
    def reference(self) -> str:
        """The id; one of over 100 characters is cut and ends in a part of its hash, which lookups take too."""
        if len(self.id) <= _LONGEST_ID:
            return self.id
        import hashlib  # only for unusual ids

        return f"{self.id[: _LONGEST_ID - 9]}-{hashlib.sha256(self.id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

    @property
    def slug(self) -> str:
        """The name as lower-case letters, digits and hyphens; precedence goes by it."""
        return self._row[5][0]

    @property
    def name(self) -> str:
        """The name as written, or the folder's name."""
        return self._row[5][2]

    @property
    def directory(self) -> str:
        """The absolute path of the skill's folder, as it was found (links not resolved)."""
        relative = self._row[4][0]
        return f"{self.root.path.rstrip('/')}/{relative}" if relative else self.root.path

    @property
    def path(self) -> str:
        """The absolute path of the SKILL.md."""
        return f"{self.directory}/{self._row[4][1]}"

    @property
    def location(self) -> str:
        """The skill's folder for every text, answer and record: `directory`, or where the root has an alias, below that."""
        relative = self._row[4][0]
        return f"{self.root.location.rstrip('/')}/{relative}" if relative else self.root.location

    @property
    def main_file(self) -> str:
        """The SKILL.md below `location`."""
        return f"{self.location}/{self._row[4][1]}"

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """Mode, size in bytes, mtime in ns and inode of the SKILL.md when it was read: others when it has changed since."""
        return self._row[4][2:]

    @property
    def description(self) -> str:
        """What the skill does and when to use it; empty when the file has none."""
        return self._row[5][5][0]

    @property
    def display_name(self) -> str | None:
        """A name for people, when one is given."""
        return self._row[5][5][1]

    @property
    def version(self) -> str | None:
        """The version as written."""
        return self._row[5][5][2]

    @property
    def kind(self) -> str:
        """How the skill runs: `direct service distributed static preprocessor internal`."""
        return self._row[5][5][3]

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools the skill requests, normalised to a list."""
        return self._row[5][5][4]

    @property
    def keywords(self) -> tuple[str, ...]:
        """Words for the search."""
        return self._row[5][5][5]

    @property
    def phrases(self) -> tuple[str, ...]:
        """Intents and phrases that request this skill."""
        return self._row[5][5][6]

    @property
    def intents(self) -> tuple[str, ...]:
        """Those of the phrases that are intents, such as `query_weather`."""
        return self._facets[0]

    @property
    def event_types(self) -> tuple[str, ...]:
        """The events the skill declares itself for, such as `abp.tool_request`."""
        return self._facets[1]

    @property
    def priority(self) -> float:
        """From 0 to 1, 0 when none is declared; it only decides between skills that match."""
        return self._facets[2] or 0.0

    @property
    def domain(self) -> str:
        """The field the skill is for; `general` when none is declared."""
        return self._facets[3]

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags as declared; they are among the keywords too."""
        return self._facets[4]

    @property
    def _facets(self) -> tuple[tuple[str, ...], tuple[str, ...], float | None, str, tuple[str, ...]]:
        return self._row[5][5][10] or ((), (), None, "general", ())

    @property
    def model_invocable(self) -> bool:
        """Whether a model may load it: neither its author nor its user reserves it for people."""
        return self._row[5][5][7] and self._row[6] != "manual"

    @property
    def state(self) -> SkillState:
        """The state that the user has set; `off` if it is disabled."""
        return "off" if self.status == "disabled" else self._row[6]

    @property
    def offered(self) -> bool:
        """Whether it is offered to models: it is usable, and its author does not reserve it for people."""
        return self.status == "ok" and self.model_invocable

    @property
    def has_entry(self) -> bool:
        """Whether it declares something that can run."""
        return self._row[5][5][8]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of its SKILL.md."""
        return tuple(Diagnostic(*values) for values in self._row[5][5][9])  # type: ignore[arg-type] # packed by summaries.py

    def document(self, *, copy: str | None = None) -> Document:
        """Read the SKILL.md now, and parse it unless that was just done; with `copy`, that in a copy of its folder.

        Raises:
            SkillUnusable: the file is missing or cannot be read.
        """
        from skillyard.catalog.skill_files import read_document

        return read_document(self.id, self.path, self.profile, copy)

    def files(self) -> tuple[SkillFile, ...]:
        """Every file of the skill but its SKILL.md, sorted by path."""
        from skillyard.catalog.skill_files import list_files

        return list_files(self.directory, skip=self._row[4][1])

    def inventory(self) -> Inventory:
        """The files counted and sorted into scripts, references and templates."""
        from skillyard.catalog.skill_files import take_inventory

        return take_inventory(self.directory, skill_file=self._row[4][1])

    def digest(self) -> str:
        """`sha256:…` over every path, executable bit and byte of the folder: it changes when anything in it does."""
        from skillyard.packages.digest import tree_digest

        return tree_digest(self.directory)

    def read_file(self, path: str, *, limit: int = 1024 * 1024) -> FileContent:
        """The file at `path` relative to the skill's folder, at most `limit` bytes.

        The address of a document that an installed skill tells to fetch is such a path too, where it was kept.

        Raises:
            PathRefused: the path leaves the folder or has a denied name.
            FileMissing: no such file; `details["candidates"]` lists near names.
            FileTooLarge: longer than `limit`.
        """
        from skillyard.catalog.skill_files import read_file, read_kept_link

        if self.source == "installed" and path.startswith(("https://", "http://")):
            return read_kept_link(self.directory, path, limit=limit)
        return read_file(self, path, limit=limit)

    def kept_links(self) -> tuple[KeptLink, ...]:
        """The kept links: copies of unpinned downloads in its text, made when it was installed."""
        from skillyard.catalog.skill_files import kept_links

        return kept_links(self.directory) if self.source == "installed" else ()


_CURRENT: Final = "/current"
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_TRIES: Final = 20


@contextlib.contextmanager
def held_version(skill: Skill) -> Iterator[Skill]:
    """The skill in the folder of its version instead of behind the link `current`; that folder is not deleted meanwhile.

    A skill that was not installed is returned unchanged.
    """
    if skill.source != "installed" or not HAS_FOLDER_DESCRIPTORS:
        yield skill
        return
    if not skill.directory.endswith(_CURRENT):
        with _held_as_it_is(skill.directory):
            yield skill
        return
    descriptor, name = _held(skill.directory)
    try:
        home = skill.directory[len(skill.root.path.rstrip("/")) + 1 : -len(_CURRENT)]
        yield skill.located(f"{home}/{name}") if name else skill
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def _held_as_it_is(folder: str) -> Iterator[None]:
    """Keep a folder from being deleted; one that is about to be deleted is not waited for."""
    import fcntl

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, _FOLDER)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def _held(link: str) -> tuple[int | None, str | None]:
    """The folder behind the link, open and locked against being deleted, and its name; nothing when it is no such link."""
    import fcntl  # only for who uses an installed skill

    for _ in range(_TRIES):
        try:
            name = os.readlink(link)
            if "/" in name:
                return None, None
            descriptor = os.open(f"{link[: -len(_CURRENT)]}/{name}", _FOLDER)
        except FileNotFoundError:
            continue  # it was replaced and deleted in between
        except OSError:
            return None, None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)  # it is about to be deleted
            continue
        return descriptor, name
    return None, None


def read_skill_folder(folder: Path, skill_id: str) -> Skill:
    """The skill in `folder` under the id `skill_id`, as if it had been installed there.

    Raises:
        SkillNotFound: there is no SKILL.md that can be read.
    """
    from skillyard.catalog.summaries import find_and_read

    (read,) = find_and_read(str(folder.parent), [folder.name], "standard")
    if read is None:
        raise SkillNotFound(f"there is no skill in {folder}", hint="delete the folder: it is fetched again")
    stamp, facts = read
    problem = facts[1]
    root = Root(str(folder.parent), "installed")
    return Skill((skill_id, "broken" if problem else "ok", problem, 0, stamp, facts, "automatic"), root, "standard")
