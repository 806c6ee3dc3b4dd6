"""Errors about packages and their installation: archives, sources, signatures, stores, versions."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError


class PackageProblem(SkillyardError):
    """A package cannot be read, fetched, trusted or kept."""

    code = "package_problem"
    status = 422


class ArchiveRefused(PackageProblem):
    """An archive or a tree breaks a rule; `details["entry"]` names the entry. The whole archive is refused."""

    code = "archive_refused"


class MalformedArchive(ArchiveRefused):
    """The archive is damaged, encrypted, of an unknown format, or could be read in two ways."""

    code = "malformed_archive"


class UnsafePath(ArchiveRefused):
    """A name leaves the package or is not safe on every machine."""

    code = "unsafe_path"


class PathTooLong(ArchiveRefused):
    """A path is too long or too deep."""

    code = "path_too_long"


class PathCollision(ArchiveRefused):
    """Two entries are the same file on some machine."""

    code = "path_collision"


class LinkNotAllowed(ArchiveRefused):
    """An entry is a symbolic or hard link."""

    code = "link_not_allowed"


class SpecialNotAllowed(ArchiveRefused):
    """An entry is neither a regular file nor a folder."""

    code = "special_not_allowed"


class ArchiveTooLarge(ArchiveRefused):
    """The archive, a file in it, or all files together are over the limit."""

    code = "archive_too_large"
    status = 413


class TooManyFiles(ArchiveRefused):
    """The archive has more entries than the limit."""

    code = "too_many_files"
    status = 413


class NoSkillInside(PackageProblem):
    """There is no skill there, or not the one that was asked for; `details["candidates"]` lists those there are."""

    code = "no_skill_inside"


class InvalidSource(PackageProblem):
    """The address of a package cannot be understood or may not be used."""

    code = "invalid_source"
    status = 400


class DigestMismatch(PackageProblem):
    """The content is not the one that was promised."""

    code = "digest_mismatch"


class SignatureInvalid(PackageProblem):
    """A skill carries a signature that does not hold for its content."""

    code = "signature_invalid"


class PackageMissing(PackageProblem):
    """The store has no package with that digest."""

    code = "package_not_found"
    status = 404


class StoreFailed(PackageProblem):
    """The store cannot be read or written."""

    code = "store_failed"
    status = 503


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
