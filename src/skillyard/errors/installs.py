"""What is installed, and does not allow what was asked for."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = [
    "ConsentRequired",
    "InstallProblem",
    "LocalEdits",
    "SignerChanged",
    "SourceChanged",
    "VersionNotFound",
    "VersionUnusable",
]


class InstallProblem(SkillyardError):
    """What is installed does not allow what was asked for."""

    code = "install_problem"
    status = 409


class ConsentRequired(InstallProblem):
    """The new version may do more than the installed one; `details["changes"]` says exactly what."""

    code = "consent_required"
    status = 403


class SignerChanged(InstallProblem):
    """The new version is signed by somebody else than the versions before, or by nobody; `details` has both keys.

    `details["replacements"]` says it of each skill, and `consent` names exactly these.
    """

    code = "signer_changed"


class SourceChanged(InstallProblem):
    """The new version comes from another source than the one that serves; `details` as of `SignerChanged`."""

    code = "source_changed"


class LocalEdits(InstallProblem):
    """An installed version is not what was installed: somebody changed its files."""

    code = "local_edits"


class VersionNotFound(InstallProblem):
    """The skill has no such version; `details["candidates"]` lists those it has."""

    code = "version_not_found"
    status = 404


class VersionUnusable(InstallProblem):
    """The version is there and may not be used: failed, deprecated or yanked, or its files are gone."""

    code = "version_unusable"
