"""The check before a skill or a tool is used: no rule denies it, and where a rule is `ask` a person has approved it.

The library, the tools, the command line and the MCP server all pass the check of skills, so that each refusal has one wording.
The answer of a person about a tool of a workspace holds for exactly this call in this folder: another command, or another
content, is another question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import AmbiguousSkill, ApprovalRejected, PermissionDenied, SkillNotFound, SkillUnusable
from skillyard.text import nearest, quoted, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Permission, Skill, SkillCatalog, Status
    from skillyard.permissions.approval_tables import SqlSessionApprovals
    from skillyard.permissions.approvals import Approvals, Approver
    from skillyard.permissions.command_policy import CommandPolicy, CommandRequest, CommandRuling
    from skillyard.permissions.permission_rules import Rules


_REASON: Final = 1000  # characters
WRITTEN: Final = "commands of a workspace can write its folder, so a model may have written or changed it"
"""Why consent is asked for although no rule asks."""


@dataclass(frozen=True, slots=True)
class SkillConsent:
    """That a skill may be used: by which rule, and when someone had to agree, to which content (`sha256:…`)."""

    permission: Permission
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionGate:
    """The rules that hold, and the approvals that answer where one of them is `ask`.

    With `for_models` skills that are kept for people are refused too.
    """

    rules: Rules
    approvals: Approvals
    for_models: bool = False

    def denies(self, skill: Skill) -> bool:
        """Whether a rule takes the skill away."""
        return skill.status == "denied" or self.rules.rule(skill).permission == "deny"

    def check(self, skill: Skill) -> None:
        """Refuse what no answer could open.

        Raises:
            PermissionDenied: a rule denies it.
            SkillUnusable: it is broken, disabled or shadowed, or not for models; `status` and `reason` give which.
        """
        if self.denies(skill):
            raise PermissionDenied(f'You don\'t have permission to use "{skill.label}" skill')
        if skill.status != "ok":
            raise unusable_skill(skill, skill.status, skill.reason or f"it is {skill.status}")
        if self.for_models and not skill.model_invocable:
            raise SkillUnusable(
                f"The skill {skill.label!r} is kept for people to start",
                hint="tell the user that it exists; they can start it",
                status=skill.status,
                reason="not for models",
            )

    async def consent(
        self,
        skill: Skill,
        *,
        session: str,
        message_id: str | None = None,
        call_id: str | None = None,
        written: bool = False,
    ) -> SkillConsent:
        """Ask for consent when a rule wants it, or the skill may have been `written` by a model; bound to its content now.

        Raises:
            ApprovalRejected: it was denied, or nobody could be asked.
        """
        permission = self.rules.rule(skill).permission
        if permission != "ask" and not written:
            return SkillConsent(permission)
        reason = WRITTEN if written else ""
        digest = await self.approvals.require(skill, session=session, message_id=message_id, call_id=call_id, reason=reason)
        return SkillConsent("ask", digest)

    def confirm(self, skill: Skill, consent: SkillConsent) -> None:
        """Make sure that what was just read is what was agreed to.

        Raises:
            ApprovalRejected: the skill changed in between.
        """
        if consent.digest is not None and skill.digest() != consent.digest:
            raise ApprovalRejected(
                f"The skill {skill.label!r} changed after it was approved",
                hint="try again: it needs a new approval",
            )


def unusable_skill(skill: Skill, status: Status, reason: str) -> SkillUnusable:
    """Why a skill cannot be used, and what to do instead."""
    return SkillUnusable(
        f"The skill {skill.label!r} is {status} and cannot be used: {shorten(single_line(reason), _REASON)}",
        hint=f"use another skill; `skillyard show {skill.reference}` shows the person in charge of the skills more",
        status=status,
        reason=reason,
    )


_ARGUMENT: Final = 20_000  # characters of a call that are shown; what is longer is denied where somebody had to read it


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """Whether a tool may be used, and why."""

    allowed: bool
    reason: str


@dataclass(slots=True)
class CommandGate:
    """Decides about the calls of one caller; `ruling` is what was said of the last one.

    `policy` gives the rules as they are at that moment, `root` the folder that paths in rules start from, `skills` the labels
    of the skills that are followed.
    """

    policy: Callable[[], CommandPolicy]
    approvals: Approvals
    root: Callable[[], str]
    session: str = "default"
    skills: Callable[[], tuple[str, ...]] = tuple
    message_id: str | None = None
    call_id: str | None = None
    ruling: CommandRuling | None = None

    @property
    def judges(self) -> bool:
        """Whether there are any rules now."""
        return bool(self.policy())

    async def authorize(self, tool: str, subject: str, *, folder: str, content: str | None = None) -> ToolVerdict:
        """The verdict about one call; `content` is what else belongs to it, such as what would be written.

        Raises:
            ApprovalRejected: a person said no, or nobody can be asked.
        """
        import asyncio  # not at the top: a program without rules need not load it

        policy = self.policy()
        if not policy:
            return ToolVerdict(True, "there are no rules")
        root = self.root()
        self.ruling = ruling = await asyncio.to_thread(lambda: policy.authorize(tool, subject, folder, root=root))
        if ruling.permission == "ask":
            if len(subject) > _ARGUMENT:
                reason = f"it has over {_ARGUMENT} characters, which nobody can read before they agree"
                self.ruling = ruling = replace(ruling, permission="deny", reason=reason)
                return ToolVerdict(False, ruling.sentence)
            await self.approvals.permit(self._request(ruling, subject, content))
            return ToolVerdict(True, "a person has agreed")
        return ToolVerdict(ruling.allowed, ruling.sentence)

    def _request(self, ruling: CommandRuling, subject: str, content: str | None) -> CommandRequest:
        import hashlib

        from skillyard.permissions.command_policy import CommandRequest  # who only runs skills needs nothing of commands

        named = "\0".join((ruling.tool, ruling.folder, subject, *(() if content is None else (content,))))
        digest = f"sha256:{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()}"
        shown = None if content is None else content.encode("utf-8", "replace").decode()
        if shown is not None and len(shown) > _ARGUMENT:
            shown = f"{shown[:_ARGUMENT]}\n[{len(shown) - _ARGUMENT} more characters]"
        return CommandRequest(
            ruling.tool,
            subject,
            ruling.folder,
            ruling,
            self.session,
            digest,
            self.skills(),
            self.message_id,
            self.call_id,
            content=shown,
        )


_SUGGESTIONS: Final = 5
_ECHOED: Final = 200  # characters of an unknown name


class SkillAccess:
    """The catalog as one agent may use it, behind four gates, always in this order.

    The skill exists; no rule denies it; it can be used (not broken, disabled, shadowed or kept for people); when a rule says
    `ask`, someone has agreed to exactly this content.
    """

    def __init__(self, catalog: SkillCatalog, rules: Rules, approvals: Approvals) -> None:
        self.catalog = catalog
        self.rules = rules
        self._approvals = approvals
        self._gate = PermissionGate(rules, approvals, for_models=True)
        self._everyone: tuple[Skill, ...] = ()
        self._offered: tuple[Skill, ...] = ()
        self._held: dict[str, str] = {}

    @property
    def approvals(self) -> Approvals:
        """What was approved, and who is asked."""
        return self._approvals

    def hold(self, skill_id: str, version: str) -> None:
        """Use an installed skill in that version from now on, as long as its folder is there, whatever is installed later."""
        self._held[skill_id] = version

    def offered(self) -> tuple[Skill, ...]:
        """The skills that may be listed to a model, in the catalog's order."""
        everyone = self.catalog.all()
        if everyone is not self._everyone:  # the catalog gives the same tuple until it is scanned again
            self._offered = tuple(skill for skill in everyone if skill.offered and not self._denied(skill))
            self._everyone = everyone
        return self._offered

    def find(self, name: str) -> Skill:
        """The skill with that id, name or unique part of a name, if it may be used.

        Raises:
            SkillNotFound: no such skill; `candidates` names near ones.
            AmbiguousSkill: more than one fits; `candidates` are their ids.
            PermissionDenied: a rule denies it.
            SkillUnusable: it is broken, disabled, shadowed or not for models; `status` and `reason` say which.
        """
        skill = self._look_up(name)
        self._gate.check(skill)
        return self.pinned_version(skill)

    def pinned_version(self, skill: Skill) -> Skill:
        """The skill in the version that is held, when one is and its folder is still there."""
        version = self._held.get(skill.id)
        if version is None or skill.source != "installed" or not skill.directory.endswith("/current"):
            return skill
        folder = f"{skill.directory.removesuffix('current')}{version}"
        return skill.located(folder[len(skill.root.path.rstrip("/")) + 1 :]) if Path(folder, "SKILL.md").is_file() else skill

    async def approve(
        self,
        skill: Skill,
        *,
        session: str,
        message_id: str | None = None,
        call_id: str | None = None,
        written: bool = False,
    ) -> SkillConsent:
        """Ask for consent when a rule wants it, or a model may have `written` it; bound to the content as it is now.

        Raises:
            ApprovalRejected: the approver refused, or there is none.
        """
        return await self._gate.consent(skill, session=session, message_id=message_id, call_id=call_id, written=written)

    def confirm(self, skill: Skill, consent: SkillConsent) -> None:
        """Make sure that what was just read is what was agreed to.

        Raises:
            ApprovalRejected: the skill changed in between.
        """
        self._gate.confirm(skill, consent)

    def approvals_of(self, approver: Approver) -> Approvals:
        """The same approvals with another approver."""
        return self._approvals.asking(approver)

    def share(self, sessions: SqlSessionApprovals) -> None:
        """Keep what is approved for conversations there, where it holds over a restart and in other processes."""
        self._approvals.share(sessions)

    def end_session(self, session: str) -> None:
        """Forget what was approved for that conversation."""
        self._approvals.end_session(session)

    def suggestions(self, name: str) -> tuple[str, ...]:
        """Names near to `name` among the offered skills, nearest first."""
        labels = {skill.name: skill.label for skill in self.offered()}
        return tuple(labels[near] for near in nearest(name, labels, limit=_SUGGESTIONS))

    def _look_up(self, name: str) -> Skill:
        try:
            skill = self.catalog.get(name)
        except AmbiguousSkill:
            return self._only_offered(name)
        except SkillNotFound:
            raise self._missing(name) from None
        if self._denied(skill) and not _is_named(skill, name):
            raise self._missing(name)  # a guess must not reveal that a hidden skill exists
        return skill

    def _only_offered(self, name: str) -> Skill:
        """The one offered skill among several that fit; hidden ones neither win nor show."""
        fitting = [skill for skill in self.offered() if _is_named(skill, name)]
        fitting = fitting or [skill for skill in self.offered() if name.casefold() in skill.name.casefold()]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise self._missing(name)
        candidates = [skill.reference for skill in fitting]
        raise AmbiguousSkill(
            f"More than one skill fits {quoted(name)}: {', '.join(candidates[:10])}",
            hint="name one of them by its id",
            candidates=candidates,
        )

    def _denied(self, skill: Skill) -> bool:
        return self._gate.denies(skill)

    def _missing(self, name: str) -> SkillNotFound:
        near = list(self.suggestions(name))
        hint = f"Did you mean: {', '.join(near)}?" if near else None
        return SkillNotFound(f"Unknown skill: {single_line(name[:_ECHOED])}", hint=hint, candidates=near)


def _is_named(skill: Skill, requested: str) -> bool:
    return requested.casefold() in {name.casefold() for name in (skill.id, skill.reference, skill.slug, skill.name)}
