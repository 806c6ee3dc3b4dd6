"""The plain values of a catalog: sources, statuses, roots, and the tuples that one skill is kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from skillyard.document import Facets


Source = Literal["project", "user", "config", "plugin", "installed", "builtin"]
"""Where a skill comes from; a root's source is the source of every skill below it."""
Status = Literal["ok", "disabled", "denied", "shadowed", "broken"]
"""Whether a skill is offered, and if not, why."""
SkillState = Literal["pinned", "automatic", "name-only", "manual", "off"]
"""What a user wants of a skill: listed first and described, as it comes, listed by its name, for people only, not at all."""
Verdict = tuple[Status, str | None]
"""A status and one sentence why it is not `ok`."""
RootStatus = Literal["ok", "missing", "refused", "unreadable", "truncated"]
"""The result for one root: only `ok` and `truncated` ones were scanned."""
FileStamp = tuple[str, str, int, int, int, int]
"""One SKILL.md on disk: folder relative to the root, file name, mode, size in bytes, mtime in ns, inode."""
_Texts = tuple[str, ...]
SkillDetails = tuple[
    str, str | None, str | None, str, _Texts, _Texts, _Texts, bool, bool, tuple[tuple[object, ...], ...], "Facets"
]
"""description, display name, version, kind, allowed tools, keywords, phrases, invocable, has_entry, diagnostics, facets."""
SkillFacts = tuple[str, str | None, str, str, str, SkillDetails]
"""The facts of one SKILL.md: slug, problem (None when usable), name, two pieces of its JSON, and the rest."""
SkillRow = tuple[str, Status, str | None, int, FileStamp, SkillFacts, SkillState]
"""One listed skill: id, status, reason, index of its root, file stamp, facts, and the state it has while it is on."""


class Root(NamedTuple):
    """One folder that is searched for skills.

    `path` is absolute. `precedence` counts from 0; the skill of the lower number wins a name. `reason` says why the status is
    not `ok`, or what was left out. `alias` is shown instead of the path to those who must not learn where it is. `variable` is
    the environment variable that names it.
    """

    path: str
    source: Source
    status: RootStatus = "ok"
    precedence: int = 0
    reason: str | None = None
    alias: str | None = None
    variable: str | None = None

    @property
    def location(self) -> str:
        """The folder as everybody who may see its skills may see it: its path, or the alias it has."""
        return self.path if self.alias is None else self.alias

    @property
    def scanned(self) -> bool:
        """Whether it was searched, if perhaps not to its end."""
        return self.status in ("ok", "truncated")

    def to_dict(self) -> dict[str, str]:
        """The root as plain data: `{"path", "source", "status", "variable"?, "reason"?}`; a tuple, as the cache has it."""
        shape = {"path": self.location, "source": self.source, "status": self.status}
        more = {"variable": self.variable, "reason": self.reason}
        return shape | {name: text for name, text in more.items() if text}


class Changes(NamedTuple):
    """The result of a refresh: ids of skills, each list sorted; `problem` says why the last good list was kept."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def any(self) -> bool:
        """Whether anything is different from before."""
        return bool(self.added or self.changed or self.removed)
