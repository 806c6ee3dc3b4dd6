"""A file inside a skill that cannot be given."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = [
    "BinaryFile",
    "FileMissing",
    "FileProblem",
    "FileTooLarge",
    "PathRefused",
]


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
