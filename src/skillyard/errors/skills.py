"""Errors about a skill: it is not found, not usable or not permitted, or a file inside it cannot be read."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError


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


class FileProblem(SkillyardError):
    """A file inside a skill cannot be given."""

    code = "file_problem"
    status = 400


class PathRefused(FileProblem):
    """The path leaves the skill's folder, passes through a link out of it, or has a denied name."""

    code = "path_refused"
    status = 403


class FileMissing(FileProblem):
    """The skill has no such file; `details["candidates"]` lists near names."""

    code = "file_not_found"
    status = 404


class FileTooLarge(FileProblem):
    """The file is over the size that may be read."""

    code = "file_too_large"
    status = 413


class BinaryFile(FileProblem):
    """The file is not text."""

    code = "binary_file"
    status = 415
