"""The skill catalog: the skills that one agent can see, kept up to date; finding one by name, the catalog as JSON."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Final, get_args

from skillyard.catalog.catalog_rows import Changes, Root, SkillState
from skillyard.catalog.catalog_state import (
    CatalogRequest,
    CatalogState,
    OrderOverlay,
    Overlay,
    apply_overlays,
    compare_states,
    project_key,
    rank,
    scan_catalog,
    settings_in,
)
from skillyard.catalog.configuration import Configuration, home_directory
from skillyard.catalog.root_scan import Progress, scan_root, watch_folders
from skillyard.catalog.roots import RootFolder, project_root
from skillyard.catalog.skill import Skill
from skillyard.catalog.user_changes import (
    create_folder,
    delete_folder,
    load_settings,
    save_chosen_set,
    save_enable_skills,
    save_enabled,
    save_state,
    switch_key,
)
from skillyard.errors import AmbiguousSkill, InvalidInput, PermissionDenied, SkillNotFound, SkillyardError
from skillyard.paths import real_path
from skillyard.plain_json import encodable_json
from skillyard.text import nearest

if TYPE_CHECKING:
    from typing import Literal, Self

    from skillyard.catalog.catalog_rows import SkillRow
    from skillyard.catalog.user_changes import SkillSettings
    from skillyard.document import Profile


def replace_folders(text: str, aliases: Mapping[str, str]) -> str:
    """`text` with each folder in it replaced by its alias, also where it is written with its links resolved.

    >>> replace_folders("/srv/data/skills/pdf was removed", {"/srv/data": "~"})
    '~/skills/pdf was removed'
    """
    if "/" not in text:
        return text
    aliases_by_path = {path.rstrip("/"): alias for folder, alias in aliases.items() for path in (real_path(folder), folder)}
    paths = sorted((path for path in aliases_by_path if path), key=len, reverse=True)
    pattern = "|".join(map(re.escape, paths))
    return re.sub(rf"(?:{pattern})(?![\w-])", lambda match: aliases_by_path[match[0]], text) if paths else text


def listing_json(rows: Sequence[SkillRow], roots: Sequence[Root]) -> str:
    """`{"skills": [...], "roots": [...]}` in ASCII, one skill a line; ten thousand take about ten milliseconds."""
    starts = [quote(f"{root.location.rstrip('/')}/")[:-1] for root in roots]
    ends = [f', "source": "{root.source}", "directory": ' for root in roots]
    alone = [quote(root.location) for root in roots]
    skills = [
        f'{{"id": "{skill_id}", {facts[3]}{ends[index]}'
        f'{starts[index] + quote(stamp[0])[1:] if stamp[0] else alone[index]}, "status": "{status}", '
        f'"reason": {"null" if reason is None else quote(reason)}, '
        f'"state": "{"off" if status == "disabled" else state}", "diagnostics": {facts[4]}}}'
        for skill_id, status, reason, index, stamp, facts, state in rows
    ]
    end = f'], "roots": {json.dumps([root.to_dict() for root in roots])}}}'
    if not skills:
        return '{"skills": [' + end
    # One join: every further step would copy some megabytes.
    skills[0] = '{"skills": [\n' + skills[0]
    skills[-1] = f"{skills[-1]}\n{end}"
    return encodable_json(",\n".join(skills))


_SHORTEST_PART: Final = 2
_Test = Callable[["Skill", str], bool]

# The exact comes before the near; the slug, which is half of the id, counts as a name too.
_STAGES: Final[tuple[_Test, ...]] = (
    lambda skill, query: ":" in query and query in (skill.id, skill.reference),
    lambda skill, query: query in skill.directory and (folder_name(skill) == query or skill.directory == query),
    lambda skill, query: skill.name == query,
    lambda skill, query: skill.display_name == query,
    lambda skill, query: skill.slug == query.lower() or skill.name.lower() == query.lower(),
    lambda skill, query: len(query) >= _SHORTEST_PART and query.lower() in skill.name.lower(),
)
_GROUPS: Final = (("ok",), ("disabled", "denied"), ("broken", "shadowed"))


def find_skill(skills: Sequence[Skill], query: str) -> Skill:
    """The skill of that id, folder, name or display name, or the only one whose name holds it, whatever its status.

    A usable skill comes before one that is not: a shadowed namesake never makes a name ambiguous.

    Raises:
        SkillNotFound: `details["candidates"]` lists ids of near names.
        AmbiguousSkill: more than one fits equally well; `details["candidates"]` lists their ids.
    """
    query = query.strip()
    for fits in _STAGES:
        if matches := [skill for skill in skills if fits(skill, query)]:
            return _only(matches, query)
    raise _not_found(skills, query)


def folder_name(skill: Skill) -> str:
    """The name of the skill's folder; the version link of an installed skill goes by its parent's name."""
    head, _, name = skill.directory.rpartition("/")
    return head.rpartition("/")[2] if name == "current" and skill.source == "installed" else name


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise InvalidInput("the current folder no longer exists", hint="change to one that exists: cd ~") from error


def _only(matches: list[Skill], query: str) -> Skill:
    for statuses in _GROUPS:
        group = [skill for skill in matches if skill.status in statuses]
        named = [skill for skill in group if skill.name == query]
        if len(group) == 1:
            return group[0]
        if len(named) == 1:
            return named[0]
        if group and statuses[0] == "ok":
            raise _ambiguous(group, query)
    raise _ambiguous(matches, query)


def _ambiguous(matches: Sequence[Skill], query: str) -> AmbiguousSkill:
    candidates = [skill.id for skill in matches]
    shown = ", ".join(candidates[:5]) + (", …" if len(candidates) > 5 else "")
    return AmbiguousSkill(f"{query!r} fits {len(matches)} skills: {shown}", hint="give one of the ids", candidates=candidates)


def _not_found(skills: Iterable[Skill], query: str) -> SkillNotFound:
    usable = [skill for skill in skills if skill.usable]
    offered = {name: skill for skill in usable for name in (skill.name, skill.id)}
    near = list({offered[name].id: offered[name] for name in nearest(query, offered, limit=6)}.values())[:3]
    uses = Counter(skill.name for skill in usable)
    named = [skill.name if skill.name == skill.slug and uses[skill.name] == 1 else skill.id for skill in near]
    hint = f"did you mean {' or '.join(named)}?" if named else "`skillyard list` shows every skill"
    return SkillNotFound(f"there is no skill {query!r}", hint=hint, candidates=[skill.id for skill in near])


class SkillCatalog:
    """Every skill of the roots; iterating gives the usable ones, `all()` also the others with the reason.

    Make one with `Catalog.discover()`.
    """

    def __init__(self, request: CatalogRequest, state: CatalogState, overlays: tuple[Overlay | OrderOverlay, ...] = ()) -> None:
        self._request = request
        self._scanned = state
        self._overlays = overlays
        self._state = apply_overlays(state, overlays)

    @classmethod
    def discover(
        cls,
        *,
        roots: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        profile: Profile | None = None,
        cache: bool = True,
        progress: Progress | None = None,
        installed: bool = False,
    ) -> Self:
        """Find the skills for work in the folder `cwd`.

        `roots` means exactly those folders, first one first, or that one folder, and with `installed` what is installed beside
        them; left out, the project's, the user's and all other well-known folders are searched. `profile` decides what
        is broken; left out, the configured one holds. `progress(done, total)` is called while files are read. With `cache`
        unchanged files are not read again.

        Raises:
            InvalidConfiguration: a settings file cannot be understood.
            InvalidInput: `cwd` is left out, and the current folder no longer exists.
        """
        environ = dict(os.environ if environ is None else environ)
        if isinstance(roots, str | os.PathLike):
            roots = (roots,)  # else the letters of the path would be taken for folders
        data = home_directory(environ)
        request = CatalogRequest(
            named=None if roots is None else tuple(os.fspath(root) for root in roots),
            cwd=os.path.abspath(cwd or _current_folder()),
            home=os.path.abspath(home or environ.get("HOME") or os.path.expanduser("~")),
            data=data,
            environ=environ,
            profile=profile,
            cache=f"{data}/cache/catalog" if cache else None,
            installed=installed,
        )
        return cls(request, scan_catalog(request, progress))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} usable of {len(self._state.rows)} skills in {len(self.roots)} roots>"

    def __iter__(self) -> Iterator[Skill]:
        return (skill for skill in self._state.all() if skill.status == "ok")

    def __len__(self) -> int:
        return sum(row[1] == "ok" for row in self._state.rows)

    def all(self) -> tuple[Skill, ...]:
        """Every skill, also disabled, denied, shadowed and broken ones, in order of precedence."""
        return self._state.all()

    @property
    def roots(self) -> tuple[Root, ...]:
        """The folders that were searched or refused, in order of precedence."""
        return tuple(scan.root for scan in self._state.scans)

    @property
    def project_root(self) -> str:
        """The git root around the working folder, else the folder of the configuration, else the working folder."""
        git_root = project_root(self._request.cwd)
        configured = self.configuration.file
        return git_root or (os.path.dirname(configured) if configured else self._request.cwd)

    @property
    def data_directory(self) -> str:
        """Skillyard's home: settings, caches, records and installed skills."""
        return self._request.data

    @property
    def search_directory(self) -> str | None:
        """Where the index of a search is kept; None for a catalog without a cache."""
        return f"{os.path.dirname(self._request.cache)}/search" if self._request.cache else None

    @property
    def configuration(self) -> Configuration:
        """The values of the project's and the user's settings files."""
        return self._state.configuration

    @property
    def profile(self) -> Profile:
        """The profile the skills were read with."""
        return self._state.profile

    def to_json(self) -> str:
        """The JSON of `list --json`: every skill and every root."""
        return listing_json(self._state.rows, self.roots)

    def get(self, name_or_id: str) -> Skill:
        """The skill with that id, folder, name, display name or unique part of a name, whatever its status.

        Raises:
            SkillNotFound: nothing fits; `details["candidates"]` lists ids of near names.
            AmbiguousSkill: several fit; `details["candidates"]` lists their ids.
        """
        return self._state.by_id().get(name_or_id.strip()) or find_skill(self._state.all(), name_or_id)

    def with_aliases(self, text: str) -> str:
        """`text`; in the catalog of an organisation with the folders of the machine in it replaced by their aliases."""
        if not self._request.organisation:
            return text
        request = self._request
        folders = {root.path: root.location for root in self.roots}
        others = {request.data: "~", self.project_root: "project", request.cwd: "project", request.home: "home"}
        return replace_folders(text, others | folders)

    def refresh(self, *, progress: Progress | None = None) -> Changes:
        """Scan again; a root that cannot be read keeps its last good list, and `problem` says why."""
        before = self._state
        try:
            state = scan_catalog(self._request, progress, before=self._scanned)
        except (SkillyardError, OSError) as error:
            return Changes(problem=str(error))
        self._set(state)
        return compare_states(before, self._state)

    def watch(
        self, *, debounce_ms: int = 300, look_again_s: float = 10, refresh: Callable[[], Changes] | None = None
    ) -> AsyncIterator[Changes]:
        """Yield changes as files change; also rescans every `look_again_s` seconds, for roots that appear.

        `refresh` is called in place of this catalog's own, in a thread, by a caller that allows only one scan at a time.
        """
        return watch_folders(self._watched, debounce_ms=debounce_ms, look_again_s=look_again_s, refresh=refresh or self.refresh)

    def with_statuses(self, overlay: Overlay) -> Self:
        """This catalog with changed statuses; a refresh of the result applies them again."""
        return type(self)(self._request, self._scanned, (*self._overlays, overlay))

    def with_order(self, sort_key: Callable[[Skill], int]) -> Self:
        """This catalog sorted by `sort_key`; skills with equal keys keep their order. A refresh applies it again."""
        return type(self)(self._request, self._scanned, (*self._overlays, OrderOverlay(sort_key)))

    def for_organisation(self, data: str, database_url: str) -> Self:
        """The catalog of an organisation with a home of its own, the folder `data`, and its records at `database_url`.

        It sees the folders of the project and the configured ones, or those that were named, as this catalog does; own and
        installed skills, switches and caches are those in `data`.
        """
        environ = {**self._request.environ, "SKILLYARD_HOME": data, "SKILLYARD_DATABASE_URL": database_url}
        cache = f"{data}/cache/catalog" if self._request.cache else None
        request = self._request._replace(data=data, environ=environ, cache=cache, organisation=True)
        return type(self)(request, scan_catalog(request, None), self._overlays)

    def in_folder(self, folder: str | os.PathLike[str]) -> Self:
        """The catalog of another project folder, with its skills and settings, otherwise like this one.

        Rules that deny skills in this catalog deny them there too.

        Raises:
            InvalidConfiguration: a settings file there cannot be understood.
        """
        request = self._request._replace(cwd=os.path.abspath(folder))
        return type(self)(request, scan_catalog(request, None), self._overlays)

    def enable(self, name_or_id: str) -> Skill:
        """Enable a skill: of a project or a configured folder there, else for all projects of this user."""
        return self._switch(name_or_id, enabled=True)

    def disable(self, name_or_id: str) -> Skill:
        """Disable a skill, where `enable` would enable it; it keeps its name and shadows others as before."""
        return self._switch(name_or_id, enabled=False)

    def set_state(self, name_or_id: str, state: SkillState) -> Skill:
        """Set the state of a skill of any source, where `enable` would enable it; returns the changed skill.

        Raises:
            InvalidInput: no such state.
        """
        if state not in get_args(SkillState):
            raise InvalidInput(f"no state {state!r}", hint=f"choose one of: {', '.join(get_args(SkillState))}")
        skill = self.get(name_or_id)
        save_state(self._request.data, switch_key(skill.source, skill.slug, skill.root.path), state)
        self._apply_switches()
        return self.get(skill.id)

    @property
    def chosen_set(self) -> str | None:
        """The name of the set of skills that is in use in this project; None where all are offered."""
        return settings_in(self._request, self.configuration).set_name or None

    @property
    def project_switches(self) -> SkillSettings:
        """The user's switches with the set that this project uses, whatever set this process was given."""
        return settings_in(self._request, self.configuration, session=False)

    def check_set(self, name: str) -> None:
        """Refuse a name that no set has here.

        Raises:
            SkillNotFound: there is no such set.
        """
        sets = self.configuration.skill_sets
        if name not in sets:
            raise SkillNotFound(
                f"there is no set of skills {name!r}",
                hint=f'write it in skillyard.toml, below [sets]: {name} = ["pdf", "docx"]',
                candidates=nearest(name, sets),
            )

    def use_set(self, name: str | None) -> None:
        """Offer only the skills of this set of `[sets]`, in this project, to this user; with None all skills.

        Raises:
            SkillNotFound: there is no such set.
        """
        if name is not None:
            self.check_set(name)
        save_chosen_set(self._request.data, project_key(self._request, self.configuration), name)
        self._apply_switches()

    def switch_all(self, *, enabled: bool) -> None:
        """Offer skills to models, or none of them (`enableSkills`); the states of single skills are kept."""
        save_enable_skills(self._request.data, enabled=enabled)
        self._apply_switches()

    @property
    def skills_enabled(self) -> bool:
        """Whether skills are offered to models at all (`enableSkills`)."""
        return load_settings(self._request.data).enable_skills

    def toggle(self, name_or_id: str) -> Skill:
        """Enable a skill that is disabled, and disable one that is not."""
        return self._switch(name_or_id, enabled=self.get(name_or_id).status == "disabled")

    def create(
        self,
        name: str,
        description: str,
        instructions: str = "",
        *,
        source: Literal["user", "project"] = "user",
        root: str | os.PathLike[str] | None = None,
    ) -> Skill:
        """Create a skill folder with a SKILL.md in the user's or the project's skills, or below `root`.

        Raises:
            InvalidInput: the name or description breaks the rule.
            SkillExists: the folder is there already.
            PermissionDenied: an organisation would write into the project that it shares.
        """
        if self._request.organisation and (source != "user" or root):
            raise PermissionDenied("an organisation makes skills of its own only", hint="make it a skill of the user")

        folder = RootFolder(os.path.abspath(root), "config") if root else RootFolder(self._folder_of(source), source)
        directory = create_folder(folder.path, name, description, instructions, source=folder.source)
        self.refresh()
        return next((skill for skill in self.all() if skill.directory == directory), None) or self._read_alone(
            folder, directory
        )

    def delete(self, name_or_id: str) -> None:
        """Delete a user's skill with its folder.

        Raises:
            DeleteRefused: it is not a user skill, or its folder is reached through a link.
        """
        delete_folder(self.get(name_or_id))
        self.refresh()

    def directory_to_open(self, name_or_id: str | None = None) -> str:
        """The folder of a skill, for a file manager; of an unknown one, the user's skills folder.

        In the catalog of an organisation it is only shown: the skill's `location`.
        """
        if name_or_id is not None:
            try:
                return self.get(name_or_id).location
            except SkillyardError:
                pass
        folder = self._folder_of("user")
        return next((root.location for root in self.roots if root.path == folder), folder)

    def _switch(self, name_or_id: str, *, enabled: bool) -> Skill:
        skill = self.get(name_or_id)
        save_enabled(self._request.data, switch_key(skill.source, skill.slug, skill.root.path), enabled=enabled)
        self._apply_switches()
        return self.get(skill.id)

    def _apply_switches(self) -> None:
        old = self._scanned
        rows = rank(old.scans, settings_in(self._request, old.configuration))
        self._set(CatalogState(old.configuration, old.profile, old.scans, rows))

    def _set(self, state: CatalogState) -> None:
        state.take_over(self._scanned)
        shown = apply_overlays(state, self._overlays)
        shown.take_over(self._state)
        self._scanned, self._state = state, shown

    def _watched(self) -> list[str]:
        """The folders in which something may change."""
        return [root.path for root in self.roots if root.scanned and os.path.isdir(root.path)]

    def _folder_of(self, source: str) -> str:
        """Where new skills go: `.claude/skills`, or `.agents/skills` where only that one is in use."""
        users = self._request.data if self._request.organisation else self._request.home
        base = users if source == "user" else self.project_root
        agents, claude = f"{base}/.agents/skills", f"{base}/.claude/skills"
        return agents if os.path.isdir(agents) and not os.path.isdir(claude) else claude

    def _read_alone(self, folder: RootFolder, directory: str) -> Skill:
        """A skill below a root that this catalog does not search."""
        scan = scan_root(folder, len(self.roots), profile=self.profile, cache=None)
        rows = rank([scan], settings_in(self._request, self.configuration))
        skills = [Skill(row, scan.root, self.profile) for row in rows]
        return next(skill for skill in skills if skill.directory == directory)
