"""What somebody wants installed, and which of the skills that a source has are meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from skillyard.errors import AmbiguousSkill, DigestMismatch, NoSkillInside
from skillyard.packages import Source
from skillyard.registry.candidate import Candidate
from skillyard.registry.model import AgreeReplacement, Consent, Progress

__all__ = ["Order", "chosen", "folder_name"]

_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip", ".skill", ".git")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be installed, and how.

    `names` are the skills of the source that are wanted, all when empty; `only` ids that it must have; `expected` the digests
    that it must have, `signers` the keys that a lock says signed it. `force` installs over local edits and yanked content, and
    installs the same content again. With `accept_signer` another signer than before is taken, or none, with `accept_source`
    another source; `replacing` is asked about what these leave open. Without `activate` a version is put beside the one that
    serves, as if it had been installed at the moment `installed_at`. With `new` none may be installed already.
    `operation_id` was made by `new_operation_id`.
    """

    source: Source
    names: tuple[str, ...] = ()
    only: Collection[str] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    signers: Mapping[str, str] = field(default_factory=dict)
    operation: Literal["install", "update"] = "install"
    consent: Consent | None = None
    force: bool = False
    accept_signer: bool = False
    accept_source: bool = False
    replacing: AgreeReplacement | None = None
    activate: bool = True
    new: bool = False
    progress: Progress | None = None
    operation_id: str | None = None
    installed_at: datetime | None = None


def chosen(pairs: list[tuple[Candidate, str]], order: Order) -> list[tuple[Candidate, str]]:
    """The candidates the order is about, each id once, with the digests that were promised; each beside its folder's name.

    Raises:
        NoSkillInside: one that it must have is not there.
        AmbiguousSkill: several have one id.
        DigestMismatch: one has other content than was promised.
    """
    if order.only:
        pairs = [pair for pair in pairs if pair[0].skill_id in order.only]
    ids = [candidate.skill_id for candidate, _ in pairs]
    if missing := sorted(set(order.only) - set(ids)):
        raise NoSkillInside(f"the source no longer has {', '.join(missing)}", hint="install it from where it is now")
    if twice := sorted({skill_id for skill_id in ids if ids.count(skill_id) > 1}):
        raise AmbiguousSkill(
            f"the source has several skills called {', '.join(twice)}",
            hint="choose one by its path with --skill",
            candidates=[candidate.origin.path for candidate, _ in pairs if candidate.skill_id in twice],
        )
    for candidate, _ in pairs:
        promised = order.expected.get(candidate.skill_id)
        if promised is not None and promised != candidate.digest:
            raise DigestMismatch(
                f"{candidate.skill_id} is not the content that is locked",
                hint="`skillyard update` takes the new content and writes the lock again",
                expected=promised,
                found=candidate.digest,
            )
    return pairs


def folder_name(path: str, source: Source) -> str:
    """The name of the folder a skill came in, which stands in for a name without Latin letters (D-4)."""
    name = (path if path != "." else source.path or source.address).rstrip("/").rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
