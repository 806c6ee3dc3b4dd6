"""The tools of one conversation: which skills its agent or settings let it use, in which versions, under which rules.

`ConversationTools` holds the versions that the conversation began with, and reports changes. `StricterRules`
are two sets of permission rules at once, of which the stricter one holds. `DeferredApprover` is for approvals that are given
later: a tool call that needs one is deferred until somebody has decided.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.agent_definitions import AgentDraft, AgentSkill, catalog_for_agent
from skillyard.catalog import Skill
from skillyard.conversations.conversation import ChatSettings
from skillyard.errors import ApprovalRejected, SkillyardError, VersionNotFound
from skillyard.permissions import (
    ApprovalAnswer,
    ApprovalRequest,
    CommandPolicy,
    CommandRequest,
    Rules,
    SqlSessionApprovals,
    check_tool_permissions,
)
from skillyard.permissions.rules import PermissionRuling
from skillyard.registry import locked_versions, read_powers
from skillyard.text import shorten, single_line
from skillyard.tools import SkillTools

if TYPE_CHECKING:
    from skillyard.catalog import PermissionMatch, SkillCatalog
    from skillyard.conversations.conversation import Conversation
    from skillyard.conversations.conversation_workspace import ConversationWorkspace
    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.tools import ToolResult


_STRICTNESS: Final = {"allow": 0, "ask": 1, "deny": 2}


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
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.permission])

    def rule_installed(self, names: Sequence[str], directory: str) -> PermissionRuling:
        """The stricter of the two."""
        rulings = (super().rule_installed(names, directory), self._base.rule_installed(names, directory))
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.permission])


_PENDING: Final = "pending"
_FILES: Final = 100
_NAME: Final = 200  # characters of a file's name
_DESCRIPTION: Final = 1024
_SENTENCE: Final = 500
_SENTENCES: Final = 50


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The decision about one call: the answer, and the content (`sha256:…`) that it is about."""

    answer: ApprovalAnswer
    digest: str


_decided: Final[ContextVar[ApprovalDecision | None]] = ContextVar("decided", default=None)


class DeferredApprover:
    """An approver for deferred calls: it gives the decision that came with the current call, else defers the call.

    A decision about other content than the current one does not count: the question is asked again. With `find`, which gives a
    skill for its id, the question lists its files and powers.
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
        return question_data(request) | (_skill_summary(skill) if skill is not None else {})


def _answer_about(digest: str) -> ApprovalAnswer | None:
    decided = _decided.get()
    given = decided is not None and (decided.digest == digest or decided.answer.decision == "reject")
    return decided.answer if decided is not None and given else None


def _waiting(what: str, question: Mapping[str, object]) -> ApprovalRejected:
    hint = "it was requested; continue when there is an answer"
    return ApprovalRejected(f"{what} waits for somebody's approval", hint=hint, **{_PENDING: question})


@contextmanager
def decision_in_context(decided: ApprovalDecision | None) -> Iterator[None]:
    """Attach this decision to the calls inside."""
    token = _decided.set(decided)
    try:
        yield
    finally:
        _decided.reset(token)


def question_data(request: ApprovalRequest) -> dict[str, object]:
    """A question as plain data: the request, and the skill's description."""
    described = shorten(single_line(request.description), _DESCRIPTION)
    return {**request.to_dict(), "skillName": request.skill_name, "description": described}


def _skill_summary(skill: Skill) -> dict[str, object]:
    """What a person should see before they agree: the skill's files, and what it may do."""
    try:
        files = [{"name": shorten(single_line(file.name), _NAME), "size": file.size} for file in skill.files()[:_FILES]]
        powers = read_powers(skill.directory, skill.document()).sentences()
        may = [shorten(single_line(sentence), _SENTENCE) for sentence in powers[:_SENTENCES]]
        return {"files": files, "may": may, "source": skill.source}
    except (SkillyardError, OSError):
        return {"files": [], "may": []}


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
        seen = self._catalog = visible_catalog(catalog, settings)
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
        self._catalog.refresh()
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
            return self._catalog.get(name)
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
