"""What a mirror holds: one list of skills with their versions, each version named by the digests of its content and package.

The list is `skillyard-mirror.json`, sorted and without the time it was made, so that the same skills give the same bytes. A
mirror proves nothing by itself: every package is checked against its digest, and who signed a skill is in the skill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from skillyard.errors import InvalidSource, NoSkillInside
from skillyard.wire import WireForm

INDEX_FILE: Final = "skillyard-mirror.json"
INDEX_LIMIT: Final = 256 * 1024 * 1024
"""Bytes that a list may have: 100,000 skills with ten versions each are half of it."""
_FORMAT: Final = "skillyard mirror 1"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_LONGEST: Final = 2000
_LARGEST: Final = 1 << 40  # bytes of a package: what is fetched has limits of its own


@dataclass(frozen=True, slots=True)
class MirroredVersion(WireForm, camel_case=True, times="full"):
    """One version: `digest` names its content, `package` the archive of it in the mirror, `size` is that archive's, in bytes.

    `deprecated` and `yanked` are the reasons, empty text when none was given, None for a version that is neither.
    """

    version: str
    digest: str
    package: str
    size: int
    installed_at: datetime
    declared_version: str | None = None
    signer: str | None = None
    deprecated: str | None = None
    yanked: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The version as it is in the list; unknown fields are left out."""
        return {name: value for name, value in WireForm.to_dict(self).items() if value is not None}

    @classmethod
    def read(cls, shape: Mapping[str, object]) -> Self:
        """The version that an entry describes. Raises ValueError: it describes none."""
        moment = datetime.fromisoformat(_text(shape, "installedAt"))
        size = shape.get("size")
        if moment.tzinfo is None or type(size) is not int or not 0 <= size <= _LARGEST:
            raise ValueError("a version has no size or no time zone")
        return cls(
            version=_text(shape, "version", _VERSION),
            digest=_text(shape, "digest", _DIGEST),
            package=_text(shape, "package", _DIGEST),
            size=size,
            installed_at=_in_utc(moment),
            declared_version=_optional(shape, "declaredVersion"),
            signer=_optional(shape, "signer"),
            deprecated=_optional(shape, "deprecated"),
            yanked=_optional(shape, "yanked"),
        )


@dataclass(frozen=True, slots=True)
class MirroredSkill(WireForm, camel_case=True):
    """One skill: `current` is the current version where the mirror was made, None when it was uninstalled there."""

    skill_id: str
    name: str
    description: str
    current: str | None
    versions: tuple[MirroredVersion, ...]

    def version(self, name: str = "") -> MirroredVersion:
        """The version with this name, by default the current one. Raises NoSkillInside: there is none."""
        requested = name or self.current
        version = next((one for one in self.versions if one.version == requested), None)
        if version is None:
            what = f"no version {name!r}" if name else "no current version"
            raise NoSkillInside(f"the mirror has {what} of {self.skill_id}", hint="`skillyard mirror list` shows what it has")
        return version

    @classmethod
    def read(cls, shape: Mapping[str, object]) -> Self:
        """The skill that an entry describes. Raises ValueError: it describes none."""
        listed = shape.get("versions")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise ValueError("a skill has no list of versions")
        versions = tuple(MirroredVersion.read(one) for one in listed)
        current = _optional(shape, "current")
        if len({one.version for one in versions}) != len(versions):
            raise ValueError("a version is listed twice")
        if current is not None and current not in {one.version for one in versions}:
            raise ValueError("the current version is not listed")
        return cls(_text(shape, "skillId", _ID), _text(shape, "name"), _text(shape, "description"), current, versions)


@dataclass(frozen=True, slots=True)
class MirrorIndex:
    """The skills of a mirror, by id."""

    skills: tuple[MirroredSkill, ...] = ()

    def serving(self) -> tuple[MirroredSkill, ...]:
        """The skills that have a current version."""
        return tuple(skill for skill in self.skills if skill.current)

    def select(self, names: tuple[str, ...]) -> MirrorIndex:
        """Only the skills with these ids or names; all when none is given. Raises NoSkillInside: there is none of a name."""
        listed = {name for skill in self.skills for name in (skill.skill_id, skill.name)}
        if missing := [name for name in names if name not in listed]:
            some = [skill.skill_id for skill in self.skills][:10]
            raise NoSkillInside(f"the mirror has no skill {missing[0]!r}", hint=f"it has {', '.join(some) or 'none'}")
        requested = set(names)
        return MirrorIndex(tuple(skill for skill in self.skills if not requested or requested & {skill.skill_id, skill.name}))

    def packages(self) -> Iterator[tuple[str, int]]:
        """The digest and size in bytes of every package, each once."""
        yield from sorted({one.package: one.size for skill in self.skills for one in skill.versions}.items())

    def to_bytes(self) -> bytes:
        """The list as it is written."""
        skills = [skill.to_dict() for skill in sorted(self.skills, key=lambda skill: skill.skill_id)]
        return (json.dumps({"format": _FORMAT, "skills": skills}, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def read(cls, data: bytes, location: str) -> Self:
        """The list at `location`. Raises InvalidSource: it is none, or of an unknown form."""
        try:
            shape = json.loads(data)
            if not isinstance(shape, dict) or shape.get("format") != _FORMAT:
                raise ValueError(f"its format is not {_FORMAT!r}")
            if not isinstance(shape.get("skills"), list) or not all(isinstance(one, dict) for one in shape["skills"]):
                raise ValueError("it has no list of skills")
            skills = tuple(MirroredSkill.read(one) for one in shape["skills"])
            if len({skill.skill_id for skill in skills}) != len(skills):
                raise ValueError("a skill is listed twice")
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise InvalidSource(
                f"{location} is not a mirror: {INDEX_FILE}: {why}", hint="make it again with `skillyard mirror export`"
            ) from None
        return cls(tuple(sorted(skills, key=lambda skill: skill.skill_id)))


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a version was installed at an impossible time") from None


def _text(shape: Mapping[str, object], name: str, form: re.Pattern[str] | None = None) -> str:
    value = shape.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST or (form is not None and not form.fullmatch(value)):
        raise ValueError(f"an entry has no proper {name}")
    return value


def _optional(shape: Mapping[str, object], name: str) -> str | None:
    return _text(shape, name) if shape.get(name) is not None else None
