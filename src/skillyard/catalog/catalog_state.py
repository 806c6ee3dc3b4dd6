"""The state of a catalog: everything that was found, which skill wins a name, and the statuses and order laid over it.

The first root wins, and within a root the first path. The others stay in the list as `shadowed`, with the winner in the reason.
A folder that several links lead to is one skill, in the first of its places; an installed one is there as the installed one, at
the place of the first such link. So is a copy of it that Skillyard put into a folder of coding agents, until it is edited: then
it is a skill of its place, with a state of its own. Copies with the same content in folders of one source are one skill, too.
A broken skill takes no name. A disabled skill keeps its name: disabling must not bring another skill to life.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.catalog.catalog_rows import Changes, SkillRow, Verdict
from skillyard.catalog.configuration import Configuration, configuration_directory, load_configuration
from skillyard.catalog.root_scan import Progress, RootScan, scan_roots, without_garbage_collection
from skillyard.catalog.roots import (
    RootFolder,
    configuration_folders,
    installed_root_folder,
    named_root_folders,
    organisation_root_folders,
    project_root,
    standard_root_folders,
)
from skillyard.catalog.skill import Skill
from skillyard.catalog.user_changes import load_copies, load_settings, real_place
from skillyard.paths import real_path, slug

if TYPE_CHECKING:
    from skillyard.catalog.catalog_rows import FileStamp, Root, SkillFacts
    from skillyard.catalog.user_changes import InstalledCopy, SkillSettings
    from skillyard.document import Profile


_Place = tuple[int, "FileStamp", "SkillFacts"]  # which scan, where in its root, what was read there
_Found = tuple[int, "FileStamp", "SkillFacts", "Root"]  # the same, and the root of its copy, where it is at the place of one
_WITH_COPIES: Final = ("project", "user")
"""The sources with a folder for each of several coding agents."""
_Winner = tuple[str, "Root", "FileStamp"]  # who has a slug: its id, its root, and where it is below it
_Folders = dict[tuple[str, int], "str | set[str]"]  # by slug and inode: the one folder as found, or the real paths of several


def rank(scans: Sequence[RootScan], settings: SkillSettings) -> list[SkillRow]:
    """One row per skill, in order of precedence; the same input always gives the same rows."""
    rows: list[SkillRow] = []
    broken: list[int] = []
    ids: set[str] = set()
    winners: dict[str, _Winner] = {}
    folders: _Folders = {}
    quiet = settings.enable_skills and not settings.disabled and settings.chosen is None
    states = settings.states
    digests: dict[str, str] = {}
    for index, stamp, facts, at in _places(scans, settings.copies):
        root, source = scans[index].root, scans[index].root.source
        slug, problem = facts[0], facts[1]
        if problem is not None:
            if _is_listed(folders, slug, root, stamp):
                continue
            broken.append(len(rows))
            rows.append(("", "broken", problem, index, stamp, facts, "automatic"))
            continue
        skill_id = f"{source}:{slug}"
        if slug not in winners:  # so its id is free too: an id holds the slug
            ids.add(skill_id)
            winners[slug] = (skill_id, root, stamp)
            status, reason = ("ok", None) if quiet else _switched(source, slug, root, settings)
            if status == "ok" and not quiet and at is not root:  # an older version switched the copy
                status, reason = _switched(at.source, slug, at, settings)
            state = settings.state(source, slug, root.path) if states else "automatic"
            rows.append((skill_id, status, reason, index, stamp, facts, state))
        elif not _is_listed(folders, slug, root, stamp, winners[slug]) and not _is_copy(root, stamp, winners[slug], digests):
            winner_id, winner_root, winner_stamp = winners[slug]
            reason = f"{winner_id} in {_folder(winner_root.location, winner_stamp)} has the same name and comes first"
            reason += _of_edits(settings, slug, (root, stamp), (winner_root, winner_stamp))
            state = settings.state(source, slug, root.path) if states else "automatic"
            rows.append((_free(skill_id, ids), "shadowed", reason, index, stamp, facts, state))
    for position in broken:
        rows[position] = _with_id(rows[position], scans, ids)
    return rows


def _places(scans: Sequence[RootScan], copies: Mapping[str, InstalledCopy]) -> Iterator[_Found]:
    """Every skill with the index of its scan, in order; an installed one once, where it or its first link or copy is."""
    installed = {
        stamp[5]: (index, stamp, facts)
        for index, scan in enumerate(scans)
        if scan.root.source == "installed"
        for stamp, facts in zip(scan.stamps, scan.facts, strict=True)
    }
    by_id = {place[1][0].partition("/")[0]: place for place in installed.values()} if copies else {}
    placed: set[int] = set()
    for index, scan in enumerate(scans):
        below = _below(scan.root, copies) if by_id else {}
        for stamp, facts in zip(scan.stamps, scan.facts, strict=True):
            place, at = (installed.get(stamp[5]) if installed else None), None
            if place is not None and not _is_same_folder(scan.root, stamp, scans[place[0]].root, place[1]):
                place = None
            if place is None and (copy := below.get(stamp[0])) and _digest(_folder(scan.root.path, stamp)) == copy.digest:
                place, at = by_id.get(copy.skill_id), scan.root
            if place is None:
                yield index, stamp, facts, scan.root
            elif place[1][5] not in placed:
                placed.add(place[1][5])
                yield (*place, at or scans[place[0]].root)


def _below(root: Root, copies: Mapping[str, InstalledCopy]) -> dict[str, InstalledCopy]:
    """The copies below a root, by their folder relative to it."""
    start = real_path(root.path).rstrip("/") + "/"
    return {path[len(start) :]: copy for path, copy in copies.items() if path.startswith(start)}


def _is_copy(root: Root, stamp: FileStamp, winner: _Winner, digests: dict[str, str]) -> bool:
    """Whether it has the content of the winner, both in folders of this project, or of this user; `digests` by folder."""
    _, winner_root, winner_stamp = winner
    if root.source != winner_root.source or root.source not in _WITH_COPIES or root.variable or winner_root.variable:
        return False
    if stamp[3] != winner_stamp[3]:
        return False
    one, other = _folder(root.path, stamp), _folder(winner_root.path, winner_stamp)
    if other not in digests:
        digests[other] = _digest(other)
    return bool(digests[other]) and digests[other] == _digest(one)


def _of_edits(settings: SkillSettings, slug: str, one: tuple[Root, FileStamp], winner: tuple[Root, FileStamp]) -> str:
    """What is to be said where one of two namesakes is an edited copy of the installed one."""
    if not settings.copies:
        return ""
    copies = [real_place(_folder(root.path, stamp)) in settings.copies for root, stamp in (one, winner)]
    which = "this" if copies[0] else "that" if copies[1] and one[0].source == "installed" else ""
    edited = f": {which} is an edited copy of the installed one, with a state of its own until `skillyard adopt {slug}`"
    return edited if which else ""


def _digest(folder: str) -> str:
    """The digest of a folder; empty when it cannot be read."""
    from skillyard.packages import tree_digest  # only where there are copies

    try:
        return tree_digest(folder)
    except OSError:
        return ""


def _switched(source: str, slug: str, root: Root, settings: SkillSettings) -> Verdict:
    """Whether it is disabled, and why; who sees the alias of a root has no command line here, and is shown no path."""
    reason = settings.reason(source, slug, root.path)
    if reason and root.alias is not None:
        reason = "disabled; it can be enabled on its page or through the API"
    return ("disabled", reason) if reason else ("ok", None)


def _is_listed(folders: _Folders, slug: str, root: Root, stamp: FileStamp, winner: _Winner | None = None) -> bool:
    """Whether a skill of this name is in `folders`, or is the `winner`, by another path of its folder; else it is added.

    Paths are resolved only where two have one name and one SKILL.md. What is behind a refused link has no inode: it is new.
    """
    key, folder = (slug, stamp[5]), _folder(root.path, stamp)
    if winner is not None and winner[2][5] == stamp[5]:
        folders.setdefault(key, _folder(winner[1].path, winner[2]))
    known = folders.get(key) if stamp[5] else None
    if known is None:
        folders[key] = folder
        return False
    if isinstance(known, str):
        known = folders[key] = {real_path(known)}
    real = real_path(folder)
    listed = real in known
    known.add(real)
    return listed


def _is_same_folder(root: Root, stamp: FileStamp, other_root: Root, other: FileStamp) -> bool:
    return real_path(_folder(root.path, stamp)) == real_path(_folder(other_root.path, other))


def _folder(root: str, stamp: FileStamp) -> str:
    return f"{root.rstrip('/')}/{stamp[0]}" if stamp[0] else root


def _with_id(row: SkillRow, scans: Sequence[RootScan], ids: set[str]) -> SkillRow:
    skill_id = _free(f"{scans[row[3]].root.source}:{row[5][0]}", ids)
    return (skill_id, *row[1:])


def _free(skill_id: str, ids: set[str]) -> str:
    """`skill_id`, or the first of `skill_id#2`, `#3`… that is free."""
    free, number = skill_id, 2
    while free in ids:
        free, number = f"{skill_id}#{number}", number + 1
    ids.add(free)
    return free


class CatalogRequest(NamedTuple):
    """The arguments of `discover`, for refreshes."""

    named: tuple[str, ...] | None
    cwd: str
    home: str
    data: str
    environ: Mapping[str, str]
    profile: Profile | None
    cache: str | None
    organisation: bool = False  # the user's own skills are not in `home` but in `data`
    installed: bool = False  # beside the named folders also what is installed


class CatalogState:
    """One complete result of a scan; a refresh replaces it in one step."""

    __slots__ = ("_by_id", "configuration", "profile", "rows", "scans", "skills")

    def __init__(
        self, configuration: Configuration, profile: Profile, scans: tuple[RootScan, ...], rows: list[SkillRow]
    ) -> None:
        self.configuration = configuration
        self.profile = profile
        self.scans = scans
        self.rows = rows
        self.skills: tuple[Skill, ...] | None = None
        self._by_id: dict[str, Skill] | None = None

    def all(self) -> tuple[Skill, ...]:
        """Every skill of every root, in order of precedence, made at the first use."""
        if self.skills is None:
            roots = [scan.root for scan in self.scans]
            self.skills = tuple([Skill(row, roots[row[3]], self.profile) for row in self.rows])
        return self.skills

    def take_over(self, before: CatalogState) -> None:
        """Make the skills now if `before` has made its own; those that are the same there stay the same objects.

        Their tuple is another one: who keeps what it worked out of them looks again, at files beside SKILL.md and at rules too.
        """
        if self.skills is not None or before.skills is None or self.profile != before.profile:
            return
        roots = [scan.root for scan in self.scans]
        known = dict(zip([row[0] for row in before.rows], before.skills, strict=True))
        skills = []
        for row in self.rows:
            skill, root = known.get(row[0]), roots[row[3]]
            skills.append(skill if skill and skill.is_unchanged(row, root) else Skill(row, root, self.profile))
        self.skills = tuple(skills)

    def by_id(self) -> dict[str, Skill]:
        """The skills by their id, made at the first use."""
        if self._by_id is None:
            self._by_id = {skill.id: skill for skill in self.all()}
        return self._by_id


def scan_catalog(request: CatalogRequest, progress: Progress | None, *, before: CatalogState | None = None) -> CatalogState:
    """Scan the roots; one that can no longer be read keeps its list from `before`.

    Raises:
        InvalidConfiguration: a settings file cannot be understood.
    """
    configuration = _configuration(request)
    profile: Profile = request.profile or configuration.profile
    last = before.scans if before else ()
    with without_garbage_collection():
        scans = scan_roots(
            _root_folders(request, configuration), profile=profile, cache=request.cache, progress=progress, last=last
        )
        return CatalogState(configuration, profile, scans, rank(scans, settings_in(request, configuration)))


SET_VARIABLE: Final = "SKILLYARD_SET"
"""The environment variable that gives one process a set of skills."""


def settings_in(request: CatalogRequest, configuration: Configuration, *, session: bool = True) -> SkillSettings:
    """The switches of the user, with the set of skills that is in use in the project, or in this process by `SKILLYARD_SET`.

    Without `session` what this process was given does not count. A set that is not there any more leaves all skills as they
    are.
    """
    settings = load_settings(request.data)
    given = request.environ.get(SET_VARIABLE, "").strip() if session else ""
    name = given or settings.sets.get(project_key(request, configuration), "")
    settings = settings._replace(copies=load_copies(request.data))
    if name not in configuration.skill_sets:
        return settings
    chosen = (word if ":" in word else slug(word) for word in configuration.skill_sets[name])
    return settings._replace(set_name=name, chosen=frozenset(chosen))


def project_key(request: CatalogRequest, configuration: Configuration) -> str:
    """Under what it is kept which set a project uses: its git root, the folder of its configuration, or the working folder."""
    configured = os.path.dirname(configuration.file) if configuration.file else request.cwd
    return real_path(project_root(request.cwd) or configured)


_OFF: Final = ("0", "false", "no", "off")


def _configuration(request: CatalogRequest) -> Configuration:
    user_file = f"{configuration_directory(request.environ)}/skillyard.toml"
    configuration = load_configuration(configuration_folders(request.cwd, request.home), user_file=user_file)
    url = request.environ.get("SKILLYARD_DATABASE_URL", "").strip()
    store = request.environ.get("SKILLYARD_STORE", "").strip()
    kind = request.environ.get("SKILLYARD_ENGINE", "").strip()
    if kind:
        configuration = configuration._replace(engine={**configuration.engine, "kind": kind})
    if request.environ.get("SKILLYARD_BUILT_IN", "").strip().lower() in _OFF:
        configuration = configuration._replace(built_in=False)
    return configuration._replace(
        database_url=url or configuration.database_url, package_store=store or configuration.package_store
    )


def _root_folders(request: CatalogRequest, configuration: Configuration) -> list[RootFolder]:
    if request.named is not None:
        folders = named_root_folders(request.named)
        folders += [installed_root_folder(request.data)] if request.installed else []
    else:
        folders = standard_root_folders(
            cwd=request.cwd, home=request.home, data=request.data, environ=request.environ, configuration=configuration
        )
    return organisation_root_folders(folders, request.data) if request.organisation else folders


def compare_states(before: CatalogState, after: CatalogState) -> Changes:
    """The skills that were added, changed and removed between two states."""
    kept = set(map(id, before.all())) & set(map(id, after.all()))
    old, new = ({skill.id: skill for skill in state.all() if id(skill) not in kept} for state in (before, after))
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(skill_id for skill_id in new.keys() & old.keys() if new[skill_id] != old[skill_id])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )


Overlay = Mapping[str, Verdict] | Callable[[Skill], Verdict | None]
"""Statuses laid over those of the scan: by id, or decided for each skill (None leaves it as it is)."""


class OrderOverlay(NamedTuple):
    """An order laid over that of the scan: a sort key for each skill; those with equal keys keep their order."""

    sort_key: Callable[[Skill], int]


def apply_overlays(state: CatalogState, overlays: tuple[Overlay | OrderOverlay, ...]) -> CatalogState:
    """A state with every overlay applied, the first one first."""
    for overlay in overlays:
        rows = _in_order(state, overlay) if isinstance(overlay, OrderOverlay) else _decided(state, overlay)
        state = CatalogState(state.configuration, state.profile, state.scans, rows)
    return state


def _in_order(state: CatalogState, order: OrderOverlay) -> list[SkillRow]:
    keys = [order.sort_key(skill) for skill in state.all()]
    return [state.rows[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]


def _decided(state: CatalogState, overlay: Overlay) -> list[SkillRow]:
    decide = (lambda skill: overlay.get(skill.id)) if isinstance(overlay, Mapping) else overlay
    rows: list[SkillRow] = []
    for row, skill in zip(state.rows, state.all(), strict=True):
        verdict = decide(skill)
        rows.append(row if verdict is None else (row[0], *verdict, *row[3:]))
    return rows
