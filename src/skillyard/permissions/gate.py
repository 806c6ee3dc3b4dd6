"""The check before a skill or a tool is used: no rule denies it, and where a rule is `ask` a person has approved it.

The library, the tools, the command line and the MCP server all pass the check of skills, so that each refusal has one wording.
The answer of a person about a tool of a workspace holds for exactly this call in this folder: another command, or another
content, is another question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.errors import ApprovalRejected, PermissionDenied, SkillUnusable
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Permission, Skill, Status
    from skillyard.permissions.approvals import Approvals
    from skillyard.permissions.command_policy import CommandPolicy, CommandRequest, CommandRuling
    from skillyard.permissions.rules import Rules


_REASON: Final = 1000  # characters
WRITTEN: Final = "it lies where commands of a workspace can write, so a model may have written or changed it"
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
                hint="tell the person who uses you that it exists; they can start it",
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
                hint="try again to have it approved anew",
            )


def unusable_skill(skill: Skill, status: Status, reason: str) -> SkillUnusable:
    """Why a skill cannot be used, and what to do instead."""
    return SkillUnusable(
        f"The skill {skill.label!r} is {status} and cannot be used: {shorten(single_line(reason), _REASON)}",
        hint=f"use another skill; `skillyard show {skill.reference}` tells the person in charge of the skills more",
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
