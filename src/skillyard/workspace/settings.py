"""What workspaces over a catalog may do: the table `[workspace]`, and the skills that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import InvalidConfiguration
from skillyard.sandbox import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Policy,
    ReadOnlyMount,
    container_image,
)
from skillyard.workspace.held_back import check_writable
from skillyard.workspace.options import WORKSPACE_POLICY, WorkspaceOptions
from skillyard.workspace.skill_mounts import skill_mounts

if TYPE_CHECKING:
    from skillyard.catalog import SkillCatalog
    from skillyard.permissions import Rules

_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "quota-mb": (1, 1024 * 1024),
    "default-timeout-ms": (1, 600_000),
    "answer-characters": (1_000, 1_000_000),
    "idle-seconds": (1, 7 * 24 * 3600),
}
_LIMITS: Final = ("timeout-ms", "memory-mb", "pids", "nofile", "file-size-mb", "tmp-mb", "output-bytes")
_GRANTS: Final = ("environment", "pass-environment", "private-networks")
_CONVERSATIONS: Final = "conversations"
_WRITABLE: Final = "writable"
_KNOWN: Final = (*_NUMBERS, *_LIMITS, *_GRANTS, "network-allowlist", "backend", "container-image", _CONVERSATIONS, _WRITABLE)


def workspaces_in_conversations(settings: Mapping[str, object]) -> bool:
    """Whether conversations may have workspaces: `conversations = false` in the table takes them away.

    Raises:
        InvalidConfiguration: it is neither true nor false.
    """
    allowed = settings.get(_CONVERSATIONS, True)
    if not isinstance(allowed, bool):
        raise InvalidConfiguration("workspace.conversations must be true or false", hint="fix the [workspace] table")
    return allowed


def options_from_settings(settings: Mapping[str, object], *, environ: Mapping[str, str] | None = None) -> WorkspaceOptions:
    """The options that a table `[workspace]` means, its keys written with hyphens; what it leaves out is as usual.

    `network-allowlist` names the hosts that commands may reach; without it there is no network. `pass-environment` names
    variables of `environ` (`os.environ` when absent) that every command sees, `writable` names of `HELD_BACK` that sessions may
    write.

    Raises:
        InvalidConfiguration: an unknown key, or a number out of its range.
        InvalidPolicy: a limit, host or variable that cannot be meant.
    """
    if unknown := sorted(set(settings) - set(_KNOWN)):
        raise InvalidConfiguration(f"unknown workspace setting: {', '.join(unknown)}", hint=f"known: {', '.join(_KNOWN)}")
    usual = {name: value for name, value in asdict(WORKSPACE_POLICY).items() if name.replace("_", "-") in _LIMITS}
    hosts = settings.get("network-allowlist") or ()
    chosen = {name: value for name, value in settings.items() if name in (*_LIMITS, *_GRANTS)}
    network = {"network": "allowlist" if hosts else "none", "network-allowlist": hosts}
    policy = Policy.ceiling(
        {**usual, **{name.replace("-", "_"): value for name, value in chosen.items()}, **network}, environ=environ
    )
    numbers: dict[str, Any] = {name.replace("-", "_"): _number(name, settings[name]) for name in _NUMBERS if name in settings}
    backend = settings.get("backend")
    if backend is not None and not isinstance(backend, str):
        raise InvalidConfiguration("workspace.backend must be a name", hint='for example backend = "bwrap"')
    fixed = frozenset(name.replace("-", "_") for name in chosen)
    image = container_image(settings)
    names = settings.get(_WRITABLE, ())
    if not isinstance(names, list | tuple):
        raise InvalidConfiguration("workspace.writable must be a list of names", hint='for example writable = [".vscode"]')
    writable = check_writable(names)
    return WorkspaceOptions(policy=policy, backend=backend, container_image=image, fixed=fixed, writable=writable, **numbers)


def _number(name: str, value: object) -> int:
    least, most = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidConfiguration(
            f"workspace.{name} must be a whole number from {least} to {most}, not {value!r}", hint="fix the [workspace] table"
        )
    return value


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
    options = options_from_settings(catalog.configuration.workspace)
    options = replace(options, environment=environment, writable=options.writable | check_writable(writable))

    def allowed(folder: str) -> tuple[ReadOnlyMount, ...]:
        usable = (skill for skill in catalog if rules.rule(skill).permission == "allow")
        return skill_mounts(usable, folder, options.backend_here().name == "landlock")

    return replace(options, skills=allowed)
