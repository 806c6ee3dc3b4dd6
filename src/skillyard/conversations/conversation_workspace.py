"""The workspace of one conversation: a session over its folder that sees the skills it may use, and what these were granted.

A session shows every skill that needs nobody's consent, and those that the conversation has loaded. Packages and programs are
those granted to the loaded skills. When a skill is loaded that needs more, the next call works in a new session, which takes
over the working folder and the variables and says so.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.environments import NO_GRANT, SkillGrant, find_program
from skillyard.errors import SandboxUnavailable, SkillyardError
from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment
from skillyard.workspace import Workspace, WorkspaceOptions, options_from_settings, workspaces_in_conversations
from skillyard.workspace.options import skill_mounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.catalog import Skill
    from skillyard.conversations.conversation import Conversation
    from skillyard.environments import SkillGrants
    from skillyard.library import Catalog
    from skillyard.tools import SkillTools

_MOST_SHOWN: Final = 200  # skills that are shown before they are loaded
_log = logging.getLogger(__name__)


def workspace_options(catalog: Catalog) -> WorkspaceOptions:
    """How the workspaces of conversations work, by the operator's table. Blocks: the sandbox is tried.

    Raises:
        SandboxUnavailable: there are none, because of the table or of this machine.
        InvalidConfiguration, InvalidPolicy: the table cannot be understood.
    """
    settings = catalog.configuration.workspace
    if not workspaces_in_conversations(settings):
        raise SandboxUnavailable(
            "conversations have no workspaces here", hint="the operator has set conversations = false in [workspace]"
        )
    options = options_from_settings(settings)
    options.backend_here()
    return options


class ConversationWorkspace:
    """The workspace of `conversation` over `folder`, and what it shows. `mark` is a file that says it was used before.

    In a folder that is a user's (`users_folder`) some places are held back, in one of the conversation's own none.

    Raises:
        SandboxUnavailable, InvalidConfiguration, InvalidPolicy: as `workspace_options`.
        PathRefused: the folder cannot be one.
    """

    def __init__(
        self, catalog: Catalog, conversation: Conversation, folder: str, mark: Path, *, users_folder: bool = False
    ) -> None:
        self._catalog = catalog
        self._mark = mark
        options = replace(workspace_options(catalog), held_back=users_folder)
        self.workspace: Final = Workspace(folder, options=options, resumed=mark.exists())
        self.conversation_id: Final = conversation.id
        self._environments: dict[tuple[str, ...], GrantedEnvironment] = {}

    async def prepare(self, tools: SkillTools, loaded: Sequence[str]) -> tuple[str, ...]:
        """Show what the conversation may see now; sentences about what was granted and cannot be had."""
        return await asyncio.to_thread(self._prepare, tools, tuple(loaded))

    def _prepare(self, tools: SkillTools, loaded: tuple[str, ...]) -> tuple[str, ...]:
        self._mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark.touch(mode=0o600)
        used, more = self._skills(tools, loaded)
        environment, problems = self._environment(used)
        over, own_paths = self.workspace.folder, self.workspace.own_paths
        shown = skill_mounts((*used, *more), over, own_paths, pinned=tools.access.pinned_version)
        mounts = sorted(shown, key=lambda mount: (mount.target or mount.source, mount.source))
        self.workspace.show(WorkspaceOptions(skills=tuple(mounts), environment=environment))
        return problems

    def _skills(self, tools: SkillTools, loaded: tuple[str, ...]) -> tuple[list[Skill], list[Skill]]:
        """The skills that were loaded, in that order, and others that need nobody's consent.

        The others are the first of all that need none, loaded or not: one that is loaded makes no room for one more.
        """
        access = tools.access
        offered = {skill.id: skill for skill in access.offered()}
        used = [offered[name] for name in reversed(loaded) if name in offered]
        first = islice(
            (
                skill
                for skill in offered.values()
                if access.rules.decide(skill) == "allow" and not self.workspace.may_write(skill.directory)
            ),
            _MOST_SHOWN,
        )
        return used, [skill for skill in first if skill.id not in loaded]

    def _environment(self, skills: Sequence[Skill]) -> tuple[GrantedEnvironment, tuple[str, ...]]:
        """What is granted to these skills together; of what does not go together the earlier skills have theirs.

        What is whole is remembered for as long as its folders are there; what could not be had is looked for each time.
        """
        grants = self._catalog.grants()
        granted = [(skill, grant) for skill in skills if (grant := grants.granted(skill))]
        if not granted:
            return NOTHING_GRANTED, ()
        key = tuple(word for _, grant in granted for word in (*grant.words, str(grant.build), str(grant.registries)))
        known = self._environments.get(key)
        if known is not None and _is_there(known):
            return known, ()
        environment, problems = self._resolve(grants, granted)
        if not problems:
            self._environments[key] = environment
        return environment, problems

    def _resolve(
        self, grants: SkillGrants, granted: Sequence[tuple[Skill, SkillGrant]]
    ) -> tuple[GrantedEnvironment, tuple[str, ...]]:
        """The environment; a program that is not on this machine is left out, as in a run, and reported."""
        had, kept = NO_GRANT, NOTHING_GRANTED
        possible: list[tuple[Skill, SkillGrant]] = []
        problems: list[str] = []
        for skill, grant in granted:
            there = tuple(name for name in grant.programs if find_program(name) is not None)
            missing = [name for name in grant.programs if name not in there]
            problems += [self._problem(skill, f"the program {name} is not installed on this machine") for name in missing]
            possible.append((skill, replace(grant, programs=there)))
            had = had.merged(possible[-1][1])
        try:
            return grants.environment(had), tuple(problems)
        except SkillyardError as error:
            if len(possible) == 1:
                return NOTHING_GRANTED, (*problems, self._problem(possible[0][0], error.message))
        had = NO_GRANT
        for skill, grant in possible:
            try:
                kept = grants.environment(had.merged(grant))
                had = had.merged(grant)
            except SkillyardError as error:
                problems.append(self._problem(skill, error.message))
        return kept, tuple(problems)

    def _problem(self, skill: Skill, message: str) -> str:
        _log.info("what was granted to %s cannot be had: %s", skill.id, message)
        return f"packages or programs of the skill {skill.label!r} are missing: {self._catalog.with_aliases(message)}"


def _is_there(environment: GrantedEnvironment) -> bool:
    """Whether everything that it consists of is still on this machine."""
    paths = (environment.python_packages, environment.node_modules, *environment.path, *environment.mounts)
    return all(Path(path).exists() for path in paths if path)
