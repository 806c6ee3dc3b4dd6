"""What workspaces may be: over which folders, with which limits (by default and by the table `[workspace]`), which skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from skillyard.catalog import home_directory
from skillyard.errors import FileMissing, PathRefused
from skillyard.sandbox import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Policy,
    ReadOnlyMount,
    choose_backend,
    container_image,
)
from skillyard.settings_reader import Settings, SettingsReader, anything, flag, number, text, texts
from skillyard.times import MAX_RUN_MS
from skillyard.workspace.held_back import check_writable, held_part

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.permissions import Rules
    from skillyard.sandbox import SandboxBackend

WORKSPACE_POLICY: Final = Policy(
    timeout_ms=MAX_RUN_MS,
    memory_mb=2048,
    filesystem="read-write",
    pids=256,
    nofile=1024,
    file_size_mb=1024,
    tmp_mb=512,
    output_bytes=8 * 1024 * 1024,
)
"""What a session may do unless an operator says otherwise: no network; one command takes at most ten minutes."""

OutputStream = Literal["stdout", "stderr"]
CommandListener = Callable[[OutputStream, str], object]
"""Gets what a command writes while it runs, without secrets: the stream and a piece of text. Called on the event loop; must
not block."""


class ToolRuling(Protocol):
    """The decision about one use of a tool."""

    @property
    def allowed(self) -> bool:
        """Whether it may be done."""

    @property
    def reason(self) -> str:
        """Why not, in one sentence for the model and the person; or which rule allows it."""


class ToolAuthorizer(Protocol):
    """Decides about each use of a workspace's tools; may ask a person, and returns when it is decided.

    An attribute `judges` may say whether it has any rules now. Unless it is false, a shell takes over no functions from the one
    before, nor variables that decide what commands do.
    """

    async def authorize(self, tool: str, subject: str, *, folder: str, content: str | None = None) -> ToolRuling:
        """The ruling for one call.

        `tool` is the name of the tool (`bash`, `code_run`, `file_read`, `file_write`, `file_edit`, `file_list`, `file_search`).
        `subject` is the text of the command, the code (after a first line with its language), or the path of the file or
        folder, as the model wrote it. `folder` is the working folder as the sandbox sees it, which relative paths start from.
        `content` is what else belongs to the call: what would be written, what replaced by what, the pattern of a search.
        """


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """How a workspace works.

    `policy` limits the session (`timeout_ms` is the most one command may take, `output_bytes` the most it may write to its
    streams). `quota_mb` is the size of the folder. `default_timeout_ms` is for commands that name no time. `answer_characters`
    is the most text of one answer; the rest of an output is kept in a file. `idle_seconds` without a call end the session, when
    no background process is left; the folder stays. `skills` are the folders of skills, read-only at their own paths or where a
    mount says, or what gives them for the folder of a workspace when a session begins; `environment` is what is granted, in
    packages and programs; the programs raise the limits they need, but for those in `fixed`, which the operator has set.
    `backend` names the sandbox (`bwrap`, `landlock` or `container`); the first that holds when it is None. `container_image` is
    the image that a container is made from, empty for what is installed here. With `held_back` (for a folder that
    is a user's) a session cannot write the places that programs act on unasked, but for those whose names are in `writable`:
    see `held_back.py`. With `read_only` it cannot write the folder at all. `home` is Skillyard's own folder (the usual one when
    empty): of folders outside of it the owners are recorded there, and given back when a session of a root service ends.
    """

    policy: Policy = WORKSPACE_POLICY
    quota_mb: int = 2048
    default_timeout_ms: int = 120_000
    answer_characters: int = 30_000
    idle_seconds: float = 900.0
    skills: Sequence[str | ReadOnlyMount] | Callable[[str], Sequence[str | ReadOnlyMount]] = ()
    environment: GrantedEnvironment = NOTHING_GRANTED
    fixed: frozenset[str] = frozenset()
    backend: str | None = None
    container_image: str = ""
    held_back: bool = True
    writable: frozenset[str] = frozenset()
    read_only: bool = False
    home: str = ""

    @property
    def own_home(self) -> str:
        """The real path of Skillyard's own folder."""
        return os.path.realpath(self.home or home_directory())

    @property
    def session_policy(self) -> Policy:
        """What a session may do: `policy`, with the limits that the granted programs need."""
        return self.environment.raised(self.policy, fixed=self.fixed)

    def backend_here(self) -> SandboxBackend:
        """The sandbox that holds a session with these options on this machine. Blocks: the first time it is tried.

        Raises:
            SandboxUnavailable: nothing here can enforce the policy.
            InvalidInput: there is no sandbox of the name in `backend`.
        """
        return choose_backend(self.session_policy, self.backend, container_image=self.container_image)

    def mounts(self, folder: str) -> tuple[ReadOnlyMount, ...]:
        """The folders of skills as a session over `folder` that begins now would see them."""
        given = self.skills(folder) if callable(self.skills) else self.skills
        mounts = (one if isinstance(one, ReadOnlyMount) else ReadOnlyMount(one) for one in given)
        return tuple(replace(mount, without_compiled=True) for mount in mounts)


_NUMBERS: Final[Settings] = {
    "quota-mb": number(1024 * 1024),
    "default-timeout-ms": number(MAX_RUN_MS),
    "answer-characters": number(1_000_000, least=1_000),
    "idle-seconds": number(7 * 24 * 3600),
}
_OPTIONS: Final = tuple(name.replace("-", "_") for name in _NUMBERS)
_LIMITS: Final = ("timeout-ms", "memory-mb", "pids", "nofile", "file-size-mb", "tmp-mb", "output-bytes")
_GRANTS: Final = ("environment", "pass-environment", "private-networks")
_SETTINGS: Final[Settings] = {
    **_NUMBERS,
    **{name: anything() for name in (*_LIMITS, *_GRANTS, "network-allowlist", "container-image")},  # of a policy
    "backend": text("a name"),
    "conversations": flag(),
    "writable": texts("a list of names", check_writable),
}


def _read(settings: Mapping[str, object]) -> dict[str, Any]:
    return SettingsReader("skillyard.toml").read(_SETTINGS, settings, "workspace")


def workspaces_in_conversations(settings: Mapping[str, object]) -> bool:
    """Whether conversations may have workspaces: `conversations = false` in the table takes them away.

    Raises:
        InvalidConfiguration: as `options_from_settings`.
    """
    return _read(settings).get("conversations", True) is True


def options_from_settings(
    settings: Mapping[str, object], *, environ: Mapping[str, str] | None = None, home: str = ""
) -> WorkspaceOptions:
    """The options that a table `[workspace]` means, its keys written with hyphens; what it leaves out is as usual.

    `network-allowlist` names the hosts that commands may reach; without it there is no network. `pass-environment` names
    variables of `environ` (`os.environ` when absent) that every command sees, `writable` names of `HELD_BACK` that sessions may
    write. `home` is Skillyard's own folder.

    Raises:
        InvalidConfiguration: an unknown key, or a number out of its range.
        InvalidPolicy: a limit, host or variable that cannot be meant.
    """
    values = _read(settings)
    usual = {name: value for name, value in asdict(WORKSPACE_POLICY).items() if name.replace("_", "-") in _LIMITS}
    hosts = settings.get("network-allowlist") or ()
    chosen = {name: value for name, value in settings.items() if name in (*_LIMITS, *_GRANTS)}
    network = {"network": "allowlist" if hosts else "none", "network-allowlist": hosts}
    policy = Policy.ceiling(
        {**usual, **{name.replace("-", "_"): value for name, value in chosen.items()}, **network}, environ=environ
    )
    given = {name: values[name] for name in ("backend", "writable", *_OPTIONS) if name in values}
    fixed = frozenset(name.replace("-", "_") for name in chosen)
    return WorkspaceOptions(policy=policy, container_image=container_image(settings), fixed=fixed, home=home, **given)


def catalog_options(
    catalog: SkillCatalog,
    rules: Rules,
    *,
    environment: GrantedEnvironment = NOTHING_GRANTED,
    writable: Sequence[str] = (),
) -> WorkspaceOptions:
    """The options of workspaces over a catalog: its table `[workspace]`, its skills, and what is granted.

    A session sees the skills that are there when it begins and that `rules` allow: one about which somebody must be asked is
    not shown, because no command would ask. `writable` are names of `HELD_BACK` beside those of the table.

    Raises:
        InvalidConfiguration, InvalidPolicy: as `options_from_settings`.
    """
    options = options_from_settings(catalog.configuration.workspace, home=catalog.data_directory)
    options = replace(options, environment=environment, writable=options.writable | check_writable(writable))

    def allowed(folder: str) -> tuple[ReadOnlyMount, ...]:
        usable = (skill for skill in catalog if rules.rule(skill).permission == "allow")
        return skill_mounts(usable, folder, options.backend_here().name == "landlock")

    return replace(options, skills=allowed)


_ALIASED: Final = "/skills"


def seen_folder(skill: Skill, own_paths: bool) -> str:
    """The folder of a skill as a session sees it: its location.

    Skills of organisations, which have no path of the machine, are below `/skills`, and with `own_paths` (under Landlock, which
    shows everything at its real path) where they really are.
    """
    if skill.root.alias is None:
        return skill.location
    return skill.directory if own_paths else f"{_ALIASED}/{skill.location.removeprefix('~/')}"


def skill_mounts(
    skills: Iterable[Skill], folder: str, own_paths: bool, *, pinned: Callable[[Skill], Skill] | None = None
) -> tuple[ReadOnlyMount, ...]:
    """The mounts that show skills to a session over `folder`, those whose folder is gone or holds that one left out.

    `pinned` gives the version of a skill that is used: its files are at its own folder, and where the skill itself would be,
    since a text that was given before the version was fixed names that.
    """
    mounts = []
    for skill in skills:
        used = pinned(skill) if pinned is not None else skill
        source = os.path.realpath(used.directory)
        if not Path(source).is_dir() or f"{folder}/".startswith(f"{source}/"):
            continue
        for target in dict.fromkeys((seen_folder(used, own_paths), seen_folder(skill, own_paths))):
            elsewhere = own_paths and os.path.realpath(target) != source
            if target.startswith("/") and not elsewhere:
                mounts.append(ReadOnlyMount(source, target))
    return tuple(mounts)


_SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr",
)  # fmt: skip
_OF_MANY: Final = ("/var/cache", "/var/lib", "/var/log", "/var/spool")  # what is below them may be a service's own
_HOMES: Final = ("/home", "/Users")


def checked_folder(folder: str | os.PathLike[str], home: str = "") -> str:
    """The real path of a folder that can be a workspace: that of one project, for a session may write everything in it.

    `home` is Skillyard's own folder, the usual one when empty: it has the database with what people have approved.

    Raises:
        FileMissing: there is no such folder.
        PathRefused: it is one of the system's, directly below `/`, a home folder, or a place that is held back in
            projects, such as `.git`; or a home folder or Skillyard's own is in it.
    """
    real = os.path.realpath(folder)
    if not Path(real).is_dir():
        raise FileMissing(f"there is no folder {os.fspath(folder)!r}", hint="make it first")
    if why := _folder_problem(real, os.path.realpath(home or home_directory())):
        raise PathRefused(
            f"{real} cannot be a workspace: {why}",
            hint="choose the folder of one project, or let Skillyard make a workspace in its own folder: --id NAME",
        )
    return real


def _folder_problem(real: str, own: str) -> str:
    """Why a folder cannot be a workspace; empty when it can."""
    if real == "/" or real in _OF_MANY or any(f"{real}/".startswith(f"{system}/") for system in _SYSTEM):
        return "it is the system's"
    homes, above = _home_folders(), str(Path(real).parent)
    if real in homes or above in _HOMES:
        return "it is a home folder, with keys and settings that a session must not read or write"
    if above == "/":
        return "it lies directly below /, where the system's folders are"
    if f"{own}/".startswith(f"{real}/"):
        return f"Skillyard keeps its own records in {own}, which a session must not write"
    if any(one.startswith(f"{real}/") for one in homes):
        return "a home folder is in it"
    held = held_part(real)
    if not held or (f"/{held}" != real and not {".git", ".ssh"} & {part.casefold() for part in real.split("/")}):
        return ""  # below the folder of an agent there are skills, and copies of projects
    return "programs act on what is there without anyone asking"


def _home_folders() -> frozenset[str]:
    """The real home folders of who uses this process, as their environment says it and as the system knows it."""
    found = {os.environ.get("HOME", "")}
    try:
        import pwd
    except ImportError:  # no such list here
        pass
    else:
        for user in (os.geteuid(), os.environ.get("SUDO_USER", "")):
            try:
                found.add(pwd.getpwuid(user).pw_dir if isinstance(user, int) else pwd.getpwnam(user).pw_dir)
            except (KeyError, ValueError):
                continue  # it has none
    return frozenset(os.path.realpath(one) for one in found if one.startswith("/"))
