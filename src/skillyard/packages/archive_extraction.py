"""From an archive to a folder: its format by its first bytes, and every rule about what may be in it.

The whole archive is refused when one entry breaks a rule, and nothing of it stays. The error names the entry, the rule (its
code) and the fix.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import ArchiveTooLarge, MalformedArchive
from skillyard.packages.digest import tree_digest
from skillyard.packages.entry_rules import PackageLimits

ArchiveFormat = Literal["zip", "tar.gz", "tar"]

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_FORMATS_HINT: Final = "packages are zip (.zip, .skill), tar.gz (.tar.gz, .tgz) or tar"
_DEFAULT: Final = PackageLimits()


@dataclass(frozen=True, slots=True)
class Extracted:
    """An unpacked archive.

    `tree` is the new folder, `digest` its tree digest, `files` the paths of its files in the archive's order, `size` their
    bytes. `flagged` are files that some program reads by itself when it finds them (`.mcp.json`, `.claude/…`, any hidden
    name): they are kept, and nothing here acts on them.
    """

    tree: Path
    digest: str
    format: ArchiveFormat
    files: tuple[str, ...]
    size: int
    flagged: tuple[str, ...] = ()


def sniff(beginning: bytes) -> ArchiveFormat | None:
    """The format of a file that begins with these bytes (512 are enough); `None` when it is none of ours."""
    from skillyard.packages.tar_reader import is_tar_header

    if beginning.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if beginning.startswith(b"\x1f\x8b\x08"):
        return "tar.gz"
    return "tar" if is_tar_header(beginning[:512]) else None


def extract(archive: str | os.PathLike[str], staging: str | os.PathLike[str], limits: PackageLimits = _DEFAULT) -> Extracted:
    """Unpack `archive` into a new folder `staging-<random>` (mode 0700) inside the folder `staging`.

    What is written has been waited for: the caller may rename the new folder into its place. When this raises, it is gone.

    Raises:
        ArchiveRefused: the archive, or one entry of it, breaks a rule.
        OSError: it cannot be read, or nothing can be written to `staging`.
    """
    source = os.open(archive, _OPEN)
    try:
        return _extract(source, os.fspath(archive), staging, limits)
    finally:
        os.close(source)


def _extract(source: int, name: str, staging: str | os.PathLike[str], limits: PackageLimits) -> Extracted:
    from skillyard.packages.tar_reader import extract_tar
    from skillyard.packages.tree_writer import new_staging
    from skillyard.packages.zip_reader import extract_zip

    length = _checked_length(source, name, limits)
    format_ = sniff(os.pread(source, 512, 0))
    if format_ is None:
        raise MalformedArchive(f"{Path(name).name} is no archive that can be read", hint=_FORMATS_HINT)
    with new_staging(staging, limits) as writer:
        if format_ == "zip":
            extract_zip(source, length, writer, limits)
        else:
            extract_tar(source, writer, limits, compressed=format_ == "tar.gz")
        digest = tree_digest(writer.path)
    return Extracted(Path(writer.path), digest, format_, tuple(writer.files), writer.size, hidden_files(writer.files))


def _checked_length(source: int, name: str, limits: PackageLimits) -> int:
    import stat

    status = os.fstat(source)
    if not stat.S_ISREG(status.st_mode):
        raise MalformedArchive(f"{Path(name).name} is no file", hint=_FORMATS_HINT)
    if status.st_size > limits.archive:
        raise ArchiveTooLarge(
            f"{Path(name).name} is over {limits.archive} bytes",
            hint="keep large data out of the package",
            limit=limits.archive,
        )
    return status.st_size


def hidden_files(files: list[str]) -> tuple[str, ...]:
    """The files with a hidden name on their path."""
    return tuple(path for path in files if path.startswith(".") or "/." in path)
