"""Which root folders are searched, in which order, and which of them are refused.

The order is the precedence: project, closest folder first; configured inside the project; user; `CLAUDE_SKILLS_DIR`;
configured outside the project; installed; plugins, newest version of each; built in.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.catalog.summaries import MAX_DEPTH, MAX_DEPTH_NAMED, SKILL_FILE, Boundary
from skillyard.paths import owner_id, real_path

if TYPE_CHECKING:
    from skillyard.catalog.catalog_rows import Source
    from skillyard.catalog.configuration import Configuration, Upward


_VERSION: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_DIGITS: Final = re.compile(r"(\d+)")

_Identifier = tuple[int, int, str]


def newest(names: list[str]) -> str:
    """The newest of at least one version name, by semantic version; names that are none come last."""
    return max(names, key=version_key)


def version_key(name: str) -> tuple[int, tuple[int, ...], int, tuple[_Identifier, ...], str]:
    """A sort key: semantic versions by their numbers, a pre-release before its release, other names in natural order."""
    match = _VERSION.fullmatch(name)
    if not match:
        return 0, (), 0, tuple(_identifier(part) for part in _DIGITS.split(name) if part), name
    numbers = tuple(int(number or 0) for number in match.group(1, 2, 3))
    pre_release = match.group(4)
    identifiers = tuple(_identifier(part) for part in pre_release.split(".")) if pre_release else ()
    return 1, numbers, 0 if pre_release else 1, identifiers, name


def _identifier(part: str) -> _Identifier:
    """Numbers compare as numbers and come before words (Semantic Versioning 2.0.0, item 11)."""
    return (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)


WELL_KNOWN: Final = (".agents/skills", ".claude/skills")
"""Where skills are in a project and in a home, first one first."""

_PLUGINS: Final = ".claude/plugins/cache"
_OUTSIDE_PROJECT: Final = "it is outside the project; set skills.allow-external-paths to true to search it"


SKILLS_VARIABLE: Final = "CLAUDE_SKILLS_DIR"
"""The environment variable that names one more folder of the user's skills."""


class RootFolder(NamedTuple):
    """One folder to scan and the rules for it."""

    path: str
    source: Source
    boundary: Boundary | None = None
    installed: bool = False
    depth: int = MAX_DEPTH
    refused: str | None = None
    alias: str | None = None  # what is shown instead of the path
    variable: str | None = None  # the environment variable that names it


def named_root_folders(roots: Iterable[str | os.PathLike[str]]) -> list[RootFolder]:
    """The folders a caller named, in that order; the path of a SKILL.md stands for its folder."""
    paths = []
    for root in roots:
        path = os.path.abspath(os.path.expanduser(os.fspath(root)))
        if os.path.basename(path).lower() == SKILL_FILE.lower() and not os.path.isdir(path):
            path = os.path.dirname(path)
        paths.append(path)
    return [RootFolder(path, "config", depth=MAX_DEPTH_NAMED) for path in dict.fromkeys(paths)]


def standard_root_folders(
    *, cwd: str, home: str, data: str, environ: Mapping[str, str], configuration: Configuration
) -> list[RootFolder]:
    """Every folder that is searched when the caller names none, in order of precedence.

    `data` is Skillyard's own folder; installed skills are below it.
    """
    user = [f"{home}/{name}" for name in WELL_KNOWN]
    variable = environ.get(SKILLS_VARIABLE, "").strip()
    if variable:
        variable = os.path.abspath(_expand(variable, home))
    own = [*user, *([variable] if variable else []), f"{data}/skills"]
    inside, outside = _configured(configuration, home, own)
    folders = [
        *_project(cwd, home, user, own, configuration),
        *inside,
        *(RootFolder(path, "user") for path in user),
        *([RootFolder(variable, "user", variable=SKILLS_VARIABLE)] if variable else []),
        *outside,
        installed_root_folder(data),
        *_plugins(f"{home}/{_PLUGINS}"),
        *(_built_in() if configuration.built_in else ()),
    ]
    first: dict[str, RootFolder] = {}
    for folder in folders:
        first.setdefault(folder.path, folder)
    return list(first.values())


def installed_root_folder(data: str) -> RootFolder:
    """Where installed skills are in Skillyard's own folder."""
    return RootFolder(f"{data}/skills", "installed", installed=True)


def organisation_root_folders(shared: Iterable[RootFolder], data: str) -> list[RootFolder]:
    """What an organisation with the home `data` sees of `shared`, and its own skills instead of the user's.

    Each has an alias, so that nothing an organisation is shown names a folder of the machine: `~/…` is its own home, and the
    shared folders are counted, `project`, `project-2`, `config`.
    """
    own = [RootFolder(f"{data}/{name}", "user", alias=f"~/{name}") for name in WELL_KNOWN]
    installed = installed_root_folder(data)._replace(alias="~/skills")
    counts: Counter[str] = Counter()
    aliased = []
    for folder in shared:
        counts[folder.source] += 1
        number = counts[folder.source]
        aliased.append(folder._replace(alias=folder.source if number == 1 else f"{folder.source}-{number}"))
    first = [folder for folder in aliased if folder.source in ("project", "config")]
    return [*first, *own, installed, *(folder for folder in aliased if folder.source == "builtin")]


def project_root(cwd: str) -> str | None:
    """The closest folder from `cwd` upwards that holds `.git`."""
    return next((folder for folder in _upwards(cwd) if os.path.lexists(f"{folder}/.git")), None)


def project_folders(cwd: str, home: str, upward: Upward = "git") -> list[str]:
    """`cwd` and its parents up to the git root if there is one, else up to the home folder or `/`.

    With `upward` "home" they go on above a git root, with "none" there is only `cwd`.
    """
    if upward == "none":
        return [cwd]
    git_root = project_root(cwd) if upward == "git" else None
    last = (home, real_path(home)) if git_root is None else (git_root,)
    folders = []
    for folder in _upwards(cwd):
        folders.append(folder)
        if folder in last:
            break
    return folders


def configuration_folders(cwd: str, home: str) -> list[str]:
    """Where a project's settings are looked for: outside of a git tree only as far as the folders belong to the user."""
    folders = project_folders(cwd, home)
    return folders if project_root(cwd) else _own(folders)


def _own(folders: list[str]) -> list[str]:
    """The folders up to the first that belongs to somebody else: in /tmp others may leave a settings file."""
    own: list[str] = []
    for folder in folders:
        try:
            if own and owner_id() not in (None, os.stat(folder).st_uid):
                break
        except OSError:
            break
        own.append(folder)
    return own


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _project(
    cwd: str, home: str, user: Sequence[str], own: Sequence[str], configuration: Configuration
) -> Iterator[RootFolder]:
    user_real = {real_path(path) for path in user}
    git_root = project_root(cwd)
    for folder in project_folders(cwd, home, configuration.upward):
        for name in WELL_KNOWN:
            path = f"{folder.rstrip('/')}/{name}"
            if os.path.isdir(path) and real_path(path) not in user_real:
                yield RootFolder(path, "project", _boundary([_inside(folder, git_root)], own, configuration, path))


def _inside(folder: str, git_root: str | None) -> str:
    """The project that a folder belongs to: the git tree around it, unless it lies above that."""
    return git_root if git_root and f"{folder}/".startswith(f"{git_root.rstrip('/')}/") else folder


def _boundary(project: Sequence[str], own: Sequence[str], configuration: Configuration, root: str) -> Boundary | None:
    """Links may lead anywhere in the project, in the root itself, or into the user's own skills."""
    if configuration.allow_external_paths:
        return None
    return Boundary(tuple(real_path(folder) for folder in (*project, root, *own)))


def _configured(configuration: Configuration, home: str, own: Sequence[str]) -> tuple[list[RootFolder], list[RootFolder]]:
    """The configured folders inside the project, and those outside of it: refused unless that is allowed."""
    inside: list[RootFolder] = []
    outside: list[RootFolder] = []
    for base, written, trusted in configuration.roots():
        path = _with_skills_folder(os.path.normpath(os.path.join(base, _expand(written, home))))
        if not trusted and Boundary((real_path(base),)).holds(real_path(path)):
            inside.append(RootFolder(path, "config", _boundary([base], own, configuration, path)))
        elif trusted or configuration.allow_external_paths:
            outside.append(RootFolder(path, "config"))
        else:
            outside.append(RootFolder(path, "config", refused=_OUTSIDE_PROJECT))
    return inside, outside


def _expand(path: str, home: str) -> str:
    """`~` and `~/…` with the home folder in its place; nothing else is expanded."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _with_skills_folder(path: str) -> str:
    """`<path>/skills` when there is one and the folder is not called that itself."""
    below = f"{path}/skills"
    return below if os.path.basename(path) != "skills" and os.path.isdir(below) else path


def _plugins(cache: str) -> Iterator[RootFolder]:
    """The `skills` folder of the newest version of every plugin of every marketplace."""
    for marketplace in _folders(cache):
        for plugin in _folders(f"{cache}/{marketplace}"):
            path = f"{cache}/{marketplace}/{plugin}"
            if versions := _folders(path):
                skills = f"{path}/{newest(versions)}/skills"
                if os.path.isdir(skills):
                    yield RootFolder(skills, "plugin")


def _folders(path: str) -> list[str]:
    """The names of the folders in `path` that are not hidden, sorted; none when it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except OSError:
        return []


def _built_in() -> Iterator[RootFolder]:
    """The skills that come with Skillyard, in its own package."""
    path = f"{os.path.dirname(os.path.dirname(__file__))}/skills"
    if os.path.isdir(path):
        yield RootFolder(path, "builtin")
