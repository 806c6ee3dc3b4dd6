"""A skill that is not there, is not what was meant, or may not be used."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = [
    "AmbiguousSkill",
    "ApprovalRejected",
    "DeleteRefused",
    "InvalidSkill",
    "NotYours",
    "PermissionDenied",
    "SkillExists",
    "SkillNotFound",
    "SkillUnusable",
]


class SkillNotFound(SkillyardError):
    """No skill has that id or name."""

    code = "skill_not_found"
    status = 404


class AmbiguousSkill(SkillyardError):
    """More than one skill fits; `details["candidates"]` lists their ids."""

    code = "ambiguous_skill"
    status = 409


class SkillUnusable(SkillyardError):
    """The skill is there but broken, shadowed or disabled."""

    code = "skill_unusable"
    status = 409


class InvalidSkill(SkillyardError):
    """A SKILL.md does not meet the profile asked for."""

    code = "invalid_skill"
    status = 422


class SkillExists(SkillyardError):
    """A skill of that name is already in that place."""

    code = "skill_exists"
    status = 409


class DeleteRefused(SkillyardError):
    """The skill may not be deleted from here."""

    code = "delete_refused"
    status = 403


class PermissionDenied(SkillyardError):
    """A rule forbids this skill."""

    code = "permission_denied"
    status = 403


class NotYours(PermissionDenied):
    """It belongs to somebody else of the organisation, and only they or an admin may change it."""

    code = "not_yours"


class ApprovalRejected(PermissionDenied):
    """Someone was asked and said no, or nobody could be asked."""

    code = "approval_rejected"
