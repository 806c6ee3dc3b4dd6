"""The one check before a skill is used: no rule denies it, it is usable, and where a rule is `ask` it was approved.

The library, the tools, the command line and the MCP server all pass it, so that each refusal has one wording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import ApprovalRejected, PermissionDenied, SkillUnusable
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Permission, Skill, Status
    from skillyard.permissions.approvals import Approvals
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
