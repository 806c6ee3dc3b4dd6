"""The tools and the workspace of one conversation: which skills it may use, in which versions, under which rules.

`ConversationTools` holds the versions that the conversation began with, and reports changes. `StricterRules` are two sets of
permission rules at once, of which the stricter one holds. `DeferredApprover` is for approvals that are given later: a tool
call that needs one is deferred until somebody has decided.

The session of the workspace shows every skill that needs nobody's consent, and those that the conversation has loaded.
Packages and programs are those granted to the loaded skills. When a skill is loaded that needs more, the next call works in a
new session, which takes over the working folder and the variables and says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.agent_definitions import AgentDraft, AgentSkill, catalog_for_agent
from skillyard.catalog import Skill
from skillyard.conversations.conversation import ChatSettings
from skillyard.environments import NO_GRANT, SkillGrant, find_program
from skillyard.errors import ApprovalRejected, SandboxUnavailable, SkillyardError, VersionNotFound
from skillyard.execution import RunOrigin
from skillyard.permissions import (
    ApprovalAnswer,
    ApprovalRequest,
    CommandPolicy,
    CommandRequest,
    Rules,
    SqlSessionApprovals,
    check_tool_permissions,
)
from skillyard.permissions.permission_rules import STRICTNESS, PermissionRuling
from skillyard.registry import locked_versions
from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment
from skillyard.skill_detail import approval_summary
from skillyard.text import shorten, single_line
from skillyard.tools import SkillTools
from skillyard.workspace import Workspace, WorkspaceOptions, options_from_settings, workspaces_in_conversations
from skillyard.workspace.workspace_options import skill_mounts

if TYPE_CHECKING:
    from skillyard.catalog import PermissionMatch, SkillCatalog
    from skillyard.conversations.conversation import Conversation
    from skillyard.environments import SkillGrants
    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.tools import ToolResult

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
    options = options_from_settings(settings, home=catalog.data_directory)
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


def settings_from_agent(agent: AgentDraft) -> ChatSettings:
    """The agent as the settings of a conversation."""
    skills = [chosen.skill_id for chosen in agent.skills]
    return ChatSettings.read({**agent.settings, "system_prompt": agent.system_prompt, "skills": skills})


def versions_of_locks(agent: AgentDraft, registry: Registry) -> dict[str, str]:
    """The install versions that an agent is locked to, by the ids of skills in the catalog. Blocks.

    Raises:
        VersionNotFound: one of them is not installed.
    """
    held = {}
    for chosen in agent.skills:
        if chosen.version_lock is None:
            continue
        locked = locked_versions(registry.installed.versions(chosen.skill_id), [chosen.version_lock])
        if not locked:
            raise VersionNotFound(
                f"the agent {agent.name!r} is locked to {chosen.skill_id} {chosen.version_lock}, which is not installed",
                hint="install it, or change the agent",
            )
        held[f"installed:{chosen.skill_id}"] = next(iter(locked))
    return held


def visible_catalog(catalog: SkillCatalog, settings: ChatSettings) -> SkillCatalog:
    """The catalog as a conversation with these settings sees it; a view of its own that can be refreshed."""
    skills = tuple(AgentSkill(name) for name in dict.fromkeys(settings.skills))
    return catalog_for_agent(
        catalog, AgentDraft("conversation", settings={"permissions": dict(settings.permissions)}, skills=skills)
    )


class StricterRules(Rules):
    """Two sets of rules at once: for each skill the stricter decision holds."""

    __slots__ = ("_base",)

    def __init__(self, base: Rules, own: Mapping[str, str], match: PermissionMatch = "first") -> None:
        super().__init__(own, match=match, origins=base.origins)
        self._base = base
        self.patterns = {**self.patterns, **base.patterns}

    def rule(self, skill: str | Skill) -> PermissionRuling:
        """The stricter of the two."""
        rulings = (super().rule(skill), self._base.rule(skill))
        return max(rulings, key=lambda ruling: STRICTNESS.index(ruling.permission))

    def rule_installed(self, names: Sequence[str], directory: str) -> PermissionRuling:
        """The stricter of the two."""
        rulings = (super().rule_installed(names, directory), self._base.rule_installed(names, directory))
        return max(rulings, key=lambda ruling: STRICTNESS.index(ruling.permission))


_PENDING: Final = "pending"
_DESCRIPTION: Final = 1024


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The decision about one call: the answer, and the content (`sha256:…`) that it is about."""

    answer: ApprovalAnswer
    digest: str


_decided: Final[ContextVar[ApprovalDecision | None]] = ContextVar("decided", default=None)
_refused: Final[ContextVar[Mapping[str, str | None]]] = ContextVar("refused", default={})  # noqa: B039 # never written to


class DeferredApprover:
    """An approver for deferred calls: it gives the decision that came with the current call, else defers the call.

    A decision about other content than the current one does not count: the question is asked again. What was refused in this
    turn is refused again without a question. With `find`, which gives a skill for its id, the question lists its files and
    powers.
    """

    def __init__(self, find: Callable[[str], Skill | None] | None = None) -> None:
        self._find = find

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The decision that was made, when it is about exactly this content.

        Raises:
            ApprovalRejected: nobody has decided yet; `pending` finds the question in the tool's answer.
        """
        answer = _answer_about(request.digest)
        if answer is not None:
            return answer
        raise _waiting(f"the skill {request.skill_name!r}", await asyncio.to_thread(self._question, request))

    async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
        """The decision that was made, when it is about exactly this call.

        Raises:
            ApprovalRejected: nobody has decided yet.
        """
        answer = _answer_about(request.digest)
        if answer is not None:
            return answer
        raise _waiting(f"this call of {request.tool}", request.to_dict())

    def _question(self, request: ApprovalRequest) -> dict[str, object]:
        skill = self._find(request.skill_id) if self._find else None
        return question_data(request) | (approval_summary(skill) if skill is not None else {})


def _answer_about(digest: str) -> ApprovalAnswer | None:
    decided = _decided.get()
    if decided is not None and (decided.digest == digest or decided.answer.decision == "reject"):
        return decided.answer
    refused = _refused.get()
    if digest not in refused:
        return None
    return ApprovalAnswer("reject", refused[digest] or "it was refused before in this turn")


def _waiting(what: str, question: Mapping[str, object]) -> ApprovalRejected:
    hint = "it was requested; continue when there is an answer"
    return ApprovalRejected(f"{what} waits for somebody's approval", hint=hint, **{_PENDING: question})


@contextmanager
def decision_in_context(decided: ApprovalDecision | None, refused: Mapping[str, str | None] | None = None) -> Iterator[None]:
    """Attach this decision to the calls inside, and what was `refused` before: the reasons by the digests of contents."""
    token, refusals = _decided.set(decided), _refused.set(refused or {})
    try:
        yield
    finally:
        _refused.reset(refusals)
        _decided.reset(token)


def question_data(request: ApprovalRequest) -> dict[str, object]:
    """A question as plain data: the request, and the skill's description."""
    described = shorten(single_line(request.description), _DESCRIPTION)
    return {**request.to_dict(), "skillName": request.skill_name, "description": described}


def pending_question(result: ToolResult) -> dict[str, object] | None:
    """The question that a call waits for; None when it was not deferred."""
    question = result.data.get(_PENDING) if result.code == ApprovalRejected.code else None
    return {str(key): value for key, value in question.items()} if isinstance(question, Mapping) else None


_CURRENT: Final = "/current"
_LONGEST_ID: Final = 100  # characters of an id that is shown


class ConversationTools:
    """The tools of one conversation over `catalog`; `memory` is the state that is restored after a restart."""

    def __init__(
        self, catalog: Catalog, conversation: Conversation, folder: str, workspace: ConversationWorkspace | None = None
    ) -> None:
        settings = conversation.settings
        seen = self._seen = visible_catalog(catalog, settings)
        self.catalog: Final = catalog
        records = catalog.records()
        self.skill_tools: Final = SkillTools(
            seen,
            permissions=StricterRules(catalog.rules(), settings.permissions, catalog.configuration.permission_match),
            approver=DeferredApprover(self.find),
            engine=catalog.engine(),
            context={"userId": conversation.owner},
            opened=records,
            workspace=workspace.workspace if workspace is not None else None,
            policy=CommandPolicy.of(
                catalog.configuration,
                agent=settings.commands,
                tools=check_tool_permissions(settings.tool_permissions),
                level="conversation" if conversation.agent is None else "agent",
            ),
            origin=RunOrigin("chat", conversation.owner, conversation.agent),
        )
        self.workspace: Final = workspace
        self._session = conversation.id
        memory = conversation.memory
        self._versions: dict[str, str] = dict(memory.get("versions") or {})
        self._loaded_digests: dict[str, str] = dict(memory.get("known") or {})
        self._announced: list[str] = list(memory.get("announced") or [])
        for skill_id, version in self._versions.items():
            self.skill_tools.access.hold(skill_id, version)
        self.skill_tools.work_in(self._session, folder)
        self.skill_tools.restore_session(self._session, memory.get("session") or {})
        self.skill_tools.access.share(SqlSessionApprovals(lambda: records.database))

    def memory(self) -> dict[str, Any]:
        """The state to restore after a restart, as plain data."""
        state = self.skill_tools.session_state(self._session)
        memory = {"versions": self._versions, "known": self._loaded_digests, "announced": self._announced}
        return {"session": state, **memory}

    def matches_memory(self, memory: Mapping[str, Any]) -> bool:
        """Whether its state equals the conversation's `memory`: no other process has written there since."""
        current = json.loads(json.dumps(self.memory()))
        return all(memory.get(name, None) == value for name, value in current.items()) or not memory.keys() & current.keys()

    def refresh(self) -> tuple[str, ...]:
        """Rescan the folders; a sentence for the model about each used skill that was changed or removed. Blocks."""
        self._seen.refresh()
        return tuple(filter(None, [self._change(skill_id) for skill_id in tuple(self._loaded_digests)]))

    def note_used(self, skill: Skill) -> None:
        """Record that the conversation uses a skill, in its current version. Blocks."""
        if skill.id in self._loaded_digests:
            return
        if skill.source == "installed" and skill.directory.endswith(_CURRENT):
            self._versions[skill.id] = _version(skill)
            self.skill_tools.access.hold(skill.id, self._versions[skill.id])
        self._loaded_digests[skill.id] = skill.digest()

    async def show_workspace(self) -> tuple[str, ...]:
        """Let the workspace show what the conversation may see now; sentences about what is missing."""
        return await self.workspace.prepare(self.skill_tools, self.loaded()) if self.workspace is not None else ()

    def find(self, name: str) -> Skill | None:
        """The skill that a call names, whether or not it may be used."""
        try:
            return self._seen.get(name)
        except SkillyardError:
            return None

    def forget_loaded_texts(self, but: tuple[str, ...]) -> None:
        """Record that the texts of skills are no longer in the history, except those."""
        state = self.skill_tools.session_state(self._session)
        loaded = state["loaded"]
        assert isinstance(loaded, dict)  # noqa: S101 # `session_state` gives it so
        for skill_id, it in loaded.items():
            if skill_id not in but:
                it["fingerprint"] = ""
        self.skill_tools.restore_session(self._session, {"loaded": loaded})

    def loaded(self) -> tuple[str, ...]:
        """The ids of the skills that the conversation has loaded, the newest first."""
        loaded = self.skill_tools.session_state(self._session)["loaded"]
        return tuple(reversed(loaded)) if isinstance(loaded, dict) else ()

    def _change(self, skill_id: str) -> str | None:
        skill = self.find(skill_id)
        name = skill.label if skill else shorten(single_line(skill_id), _LONGEST_ID)
        if skill is None or self.skill_tools.access.rules.decide(skill) == "deny" or not skill.offered:
            reason = skill.status if skill else "it was removed"
            return self._once(
                f"gone:{skill_id}", f"the skill {name!r} is no longer available ({reason}): do not use it any more"
            )
        held = self._versions.get(skill_id)
        if held is not None:
            if not skill.directory.endswith(_CURRENT) or _version(skill) == held:
                return None
            version = shorten(single_line(held), _LONGEST_ID)
            notice = f"a newer version of the skill {name!r} was installed; this conversation continues with {version}"
            return self._once(f"newer:{skill_id}:{_version(skill)}", notice)
        digest = skill.digest()
        if digest == self._loaded_digests[skill_id]:
            return None
        self._loaded_digests[skill_id] = digest
        return f"the skill {name!r} has changed: load it again before you continue with it"

    def _once(self, mark: str, text: str) -> str | None:
        if mark in self._announced:
            return None
        self._announced = [*self._announced[-99:], mark]
        return text


def _version(skill: Skill) -> str:
    return Path(skill.directory).readlink().name
