"""What workspaces over a catalog may do: the table `[workspace]`, the skills that are shown, the rules of commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from skillyard.errors import InvalidConfiguration
from skillyard.permissions import CommandPolicy, Rules
from skillyard.sandbox import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Policy,
    ReadOnlyMount,
    choose_backend,
    container_image,
)
from skillyard.workspace.options import WORKSPACE_POLICY, WorkspaceOptions

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog

_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "quota-mb": (1, 1024 * 1024),
    "default-timeout-ms": (1, 600_000),
    "answer-characters": (1_000, 1_000_000),
    "idle-seconds": (1, 7 * 24 * 3600),
}
_LIMITS: Final = ("timeout-ms", "memory-mb", "pids", "nofile", "file-size-mb", "tmp-mb", "output-bytes")
_GRANTS: Final = ("environment", "pass-environment", "private-networks")
_CONVERSATIONS: Final = "conversations"
_KNOWN: Final = (*_NUMBERS, *_LIMITS, *_GRANTS, "network-allowlist", "backend", "container-image", _CONVERSATIONS)


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
    variables of `environ` (`os.environ` when absent) that every command sees.

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
    return WorkspaceOptions(policy=policy, backend=backend, container_image=image, fixed=fixed, **numbers)


def _number(name: str, value: object) -> int:
    least, most = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidConfiguration(
            f"workspace.{name} must be a whole number from {least} to {most}, not {value!r}", hint="fix the [workspace] table"
        )
    return value


def catalog_options(
    catalog: SkillCatalog, rules: Rules, *, environment: GrantedEnvironment = NOTHING_GRANTED
) -> WorkspaceOptions:
    """The options of workspaces over a catalog: its table `[workspace]`, its skills, and what is granted.

    A session sees the skills that are there when it begins and that `rules` allow: one about which somebody must be asked is
    not shown, because no command would ask.

    Raises:
        InvalidConfiguration, InvalidPolicy: as `options_from_settings`.
    """
    options = options_from_settings(catalog.configuration.workspace)

    def allowed() -> tuple[ReadOnlyMount, ...]:
        own_paths = choose_backend(options.policy, options.backend).name == "landlock"
        return tuple(_mount(skill, own_paths) for skill in catalog if _may_be_shown(skill, rules))

    return replace(options, skills=allowed, environment=environment)


def _may_be_shown(skill: Skill, rules: Rules) -> bool:
    return rules.rule(skill).permission == "allow" and Path(skill.directory).is_dir()


def _mount(skill: Skill, own_paths: bool) -> ReadOnlyMount:
    """Where a session sees a skill: at its location; below `/skills` where that is no path, as in organisations."""
    if own_paths:
        return ReadOnlyMount(skill.directory)
    alias = f"/skills/{skill.location.removeprefix('~/')}"
    return ReadOnlyMount(skill.directory, skill.location if skill.location.startswith("/") else alias)


@dataclass(frozen=True, slots=True)
class _SettledRuling:
    """A decision that nobody else is asked about."""

    allowed: bool
    reason: str


class RuleAuthorizer:
    """Decides about calls by the rules of commands alone: where nobody can be asked, what they would ask about is refused."""

    def __init__(self, policy: CommandPolicy) -> None:
        self._policy = policy

    @classmethod
    def of(cls, catalog: SkillCatalog) -> Self:
        """The rules of the operator and the project, as the catalog's configuration has them."""
        return cls(CommandPolicy.of(catalog.configuration))

    async def authorize(self, tool: str, subject: str, *, folder: str) -> _SettledRuling:
        """The ruling for one call, as a `ToolAuthorizer` gives it."""
        ruling = await asyncio.to_thread(self._policy.authorize, tool, subject, folder, root=folder)
        unasked = ", and nobody can be asked here" if ruling.permission == "ask" else ""
        return _SettledRuling(ruling.allowed, f"{ruling.sentence}{unasked}")
