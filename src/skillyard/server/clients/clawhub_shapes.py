"""The shapes of ClawHub's protocol: owners, labels, tags, skills, versions and fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from fastapi import Path as InPath

from skillyard.errors import SkillNotFound, VersionNotFound
from skillyard.paths import slug as slug_of
from skillyard.registry import LATEST, InstalledSkill, PopularityCounts
from skillyard.server.authorization import Caller, CurrentCaller
from skillyard.server.clients.published_skills import (
    NumberedVersion,
    current_version,
    display_name,
    find_version,
    installed_version,
    offered_skill,
    usable_versions,
)
from skillyard.server.organisation_services import CurrentServices, OrganisationServices

SlugPath = Annotated[str, InPath(max_length=200)]
OwnerQuery = Annotated[str | None, Query(max_length=200)]
LabelQuery = Annotated[str | None, Query(max_length=100)]
_COLLATED: Final = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
"""The order of characters in ICU's root collation, which is that of JavaScript's `localeCompare` for English."""
_ORDER: Final = {character: number for number, character in enumerate(_COLLATED, 1)}


def owner_shape(caller: Caller) -> dict[str, Any]:
    """The caller's organisation as the owner of what is published here."""
    return {"handle": slug_of(caller.organisation), "displayName": caller.organisation, "image": None}


def owned_skill(
    service: OrganisationServices, caller: Caller, skill_id: str, handle: str | None, *, installed: bool = True
) -> InstalledSkill:
    """The skill of that slug, when `handle` is the caller's own or not given.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    if handle is not None and handle.removeprefix("@") != owner_shape(caller)["handle"]:
        raise SkillNotFound(
            f"{handle} publishes nothing here", hint=f"the owner of all skills is {owner_shape(caller)['handle']}"
        )
    return offered_skill(service, skill_id, installed=installed)


def _owned_skill(
    service: CurrentServices,
    caller: CurrentCaller,
    slug: SlugPath,
    ownerHandle: OwnerQuery = None,  # noqa: N803 # the protocol's own spelling
) -> InstalledSkill:
    return owned_skill(service, caller, slug, ownerHandle)


OwnedSkill = Annotated[InstalledSkill, Depends(_owned_skill)]
"""The skill that the path names by its slug, and perhaps the query by its owner."""


def version_of_label(service: OrganisationServices, skill: InstalledSkill, label: str) -> NumberedVersion:
    """The usable version of that label.

    Raises:
        VersionNotFound: there is none.
    """
    return find_version(service, skill.skill_id, lambda one: one.label == label, label)


def version_of_tag(service: OrganisationServices, skill: InstalledSkill, label: str | None, tag: str | None) -> NumberedVersion:
    """The version of a label, or of a tag; `latest` is the current version.

    Raises:
        VersionNotFound: there is none.
    """
    if label is not None:
        return version_of_label(service, skill, label)
    if tag in (None, LATEST):
        return current_version(service, skill.skill_id)
    version = service.registry.tags.of(skill.skill_id).get(tag)
    if version is None:
        raise VersionNotFound(f"{skill.skill_id} has no tag {tag!r}", hint=f"the one that serves is {LATEST}")
    return installed_version(service, skill.skill_id, version)


class SkillShapes:
    """Skills as lists show them, with the counts and tags of the moment it was made."""

    def __init__(self, service: OrganisationServices) -> None:
        self._service = service
        self._counts = service.registry.popularity.counts()
        self._tags = service.registry.tags.all()

    def counts(self, skill: InstalledSkill) -> PopularityCounts:
        """How often it was starred, fetched and installed."""
        return self._counts.get(skill.skill_id, PopularityCounts())

    def tags(self, skill: InstalledSkill) -> dict[str, str]:
        """The labels of the versions that tags stand for."""
        given = self._tags.get(skill.skill_id, {})
        if not given:
            return {}
        labels = {one.version.version: one.label for one in usable_versions(self._service, skill.skill_id)}
        return {tag: labels[version] for tag, version in given.items() if version in labels}

    def skill(self, skill: InstalledSkill) -> dict[str, Any]:
        """One skill."""
        return _skill_shape(skill, current_version(self._service, skill.skill_id), self.tags(skill), self.counts(skill))


def _skill_shape(
    skill: InstalledSkill, latest: NumberedVersion, tags: dict[str, str], counts: PopularityCounts
) -> dict[str, Any]:
    return {
        "slug": skill.skill_id,
        "displayName": display_name(skill),
        "summary": skill.description,
        "topics": list(skill.tags),
        "tags": {LATEST: latest.label, **tags},
        "stats": {"stars": counts.stars, "downloads": counts.downloads, "installsAllTime": counts.installs},
        "createdAt": milliseconds(skill.created_at),
        "updatedAt": milliseconds(skill.updated_at),
        "latestVersion": version_shape(latest),
        "metadata": None,
    }


def version_shape(one: NumberedVersion) -> dict[str, Any]:
    """A version as lists show it, with what its publisher said is new."""
    return {
        "version": one.label,
        "createdAt": milliseconds(one.version.installed_at),
        "changelog": str(one.version.origin.get("notes") or ""),
        "license": None,
    }


def fingerprint(files: Iterable[tuple[str, int, str]]) -> str:
    """The name that the client gives to the content of a folder: over path and SHA-256 of each file that is not hidden."""
    seen = [(path, digest) for path, _, digest in files if not any(part.startswith(".") for part in path.split("/"))]
    seen.sort(key=lambda file: _collation_key(file[0]))
    return hashlib.sha256("\n".join(f"{path}:{digest}" for path, digest in seen).encode()).hexdigest()


def _collation_key(path: str) -> tuple[list[int], list[bool], str]:
    """Letters before their case, as `localeCompare` sorts; other scripts come after, by their code."""
    return (
        [_ORDER.get(letter, 1000 + ord(letter)) for letter in path.lower()],
        [letter.isupper() for letter in path],
        path,
    )


def milliseconds(moment: datetime | None) -> int:
    """A moment in milliseconds since 1970."""
    return int((moment or datetime.fromtimestamp(0, UTC)).timestamp() * 1000)
