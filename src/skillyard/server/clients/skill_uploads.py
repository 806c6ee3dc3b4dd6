"""A skill that is published through another protocol, as an archive or as single files, and installed by the registry.

Single files become an archive under the names they came with, so that each rule of archives holds for them too.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from skillyard.errors import InvalidInput, NoSkillInside, PathCollision, SkillExists, UnsafePath
from skillyard.packages import FoundSkill, PackageLimits, Source, extract, find_skills, sniff
from skillyard.paths import slug
from skillyard.registry import OperationResult
from skillyard.server.file_transfers import SentConsent, read_form, scratch
from skillyard.server.organisation_services import OrganisationServices

_LIMITS: Final = PackageLimits()
_FIELDS: Final = ("files", "files[]")
_PIECE: Final = 1024 * 1024
_NO_MODE: Final = (0, 0x20)
"""Of an entry that says nothing of permissions: a file of MS-DOS."""


@dataclass(frozen=True, slots=True)
class IncomingSkill:
    """One skill that waits in an archive; `fields` are the other fields of its form."""

    archive: Path
    skill: FoundSkill
    fields: dict[str, str]


@contextlib.asynccontextmanager
async def received_skill(
    service: OrganisationServices, request: Request, *, one_folder: bool = False, limits: PackageLimits = _LIMITS
) -> AsyncIterator[IncomingSkill]:
    """The skill of a form with `files[]`, or with one archive as `files`, for as long as the block lasts.

    Raises:
        ArchiveRefused, NoSkillInside: it is not exactly one skill, or breaks a rule of archives; so it does with `one_folder`
            when a file lies outside the skill's folder.
        InvalidInput: it is no such form.
    """
    async with scratch(service.registry) as folder:
        async with read_form(request, min(limits.archive, limits.total), files=limits.entries, fields=20) as form:
            archive = await run_in_threadpool(_archive, form, folder)
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
        skill = await run_in_threadpool(inspect_archive, archive, folder, one_folder=one_folder, limits=limits)
        yield IncomingSkill(archive, skill, fields)


def files_of(form: FormData) -> list[UploadFile]:
    """The files of a form, in order."""
    return [value for name, value in form.multi_items() if name in _FIELDS and isinstance(value, UploadFile)]


def _archive(form: FormData, folder: Path) -> Path:
    files = files_of(form)
    if not files:
        raise InvalidInput("there are no files", hint="send them as the fields `files[]` of multipart/form-data")
    if len(files) == 1:
        beginning = files[0].file.read(512)
        files[0].file.seek(0)
        if sniff(beginning) is not None:
            target = folder / f"{slug(Path(files[0].filename or '').stem[-80:], 'upload')}.zip"
            with target.open("wb") as stream:
                while piece := files[0].file.read(_PIECE):
                    stream.write(piece)
            return target
    return write_archive(((file.filename or "", file.file) for file in files), folder / "upload.zip")


def write_archive(files: Iterable[tuple[str, BinaryIO]], target: Path) -> Path:
    """Write files under their names into a new archive, which says nothing about whether they may be so called.

    Raises:
        UnsafePath: a name cannot be written at all.
        PathCollision: two have the same name.
    """
    taken = set()
    with zipfile.ZipFile(target, "w") as archive:
        for name, file in files:
            if not name or "\0" in name or name.endswith("/"):
                raise UnsafePath(f"{name!r} is not a valid file name", hint="send each file with its path", entry=name)
            if name in taken:
                raise PathCollision(f"{name!r} was sent twice", hint="send each file once", entry=name)
            taken.add(name)
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = _NO_MODE
            with archive.open(entry, "w") as stream:
                while piece := file.read(_PIECE):
                    stream.write(piece)
    return target


def inspect_archive(archive: Path, folder: Path, *, one_folder: bool = False, limits: PackageLimits = _LIMITS) -> FoundSkill:
    """The one skill of an archive, unpacked below `folder`.

    Raises:
        ArchiveRefused: the archive breaks a rule.
        NoSkillInside: it has none, or several; with `one_folder`, it has something beside the skill's folder.
    """
    unpacked = extract(archive, folder, limits)
    skills = find_skills(unpacked.tree)
    if len(skills) != 1:
        raise NoSkillInside(
            f"there are {len(skills)} skills in it" if skills else "there is no skill in it: no folder has a file SKILL.md",
            hint="publish one skill at a time: a folder with a SKILL.md",
            candidates=[skill.name for skill in skills],
        )
    if one_folder and (outside := _outside(unpacked.files, skills[0].path)):
        raise NoSkillInside(f"{outside!r} is not in the skill's folder", hint="put all files into one folder, with SKILL.md")
    if skills[0].path == ".":  # the folder it lies in is called as the archive
        return replace(skills[0], skill_id=slug(skills[0].name, archive.stem))
    return skills[0]


def _outside(files: Iterable[str], path: str) -> str | None:
    """A file that is not in the top folder, which has to be the skill's own."""
    if "/" in path or path == ".":
        return "SKILL.md"
    return next((file for file in files if not file.startswith(f"{path}/")), None)


def install_skill(
    service: OrganisationServices,
    incoming: IncomingSkill,
    *,
    into: str | None = None,
    consent: str | None = None,
    version: str = "",
    notes: str = "",
    serves: bool = True,
) -> OperationResult:
    """Install what came in: as a new skill, or as another version of the skill `into`, which then `serves` or only is there.

    Raises:
        SkillExists: there is such a skill, and it is to be a new one.
        InvalidInput: it is another skill than `into`.
        ConsentRequired, SignerChanged, SourceChanged: it may do more than the version that serves, or is signed by somebody
            else or was not uploaded; `consent` in the details is what agrees to exactly that.
        SkillyardError: as the registry's `install`.
    """
    skill_id = incoming.skill.skill_id
    existing = service.registry.records.read.skill(skill_id) if into is None else None
    if existing is not None and existing.active:
        raise SkillExists(f"there is a skill {skill_id!r}", hint="publish it as a version of that skill", skill_id=skill_id)
    if into not in (None, skill_id):
        raise InvalidInput(
            f"its SKILL.md calls the skill {incoming.skill.name!r}, and this is {into!r}",
            hint="a version has the name of its skill; publish it as a skill of its own, or fix the name",
        )
    source = Source("upload", str(incoming.archive), version=version, notes=notes)
    agreed = SentConsent(consent)
    report = service.registry.install(
        source, only=(skill_id,), consent=agreed, replacing=agreed, activate=serves, new=into is None
    )
    service.refresh()
    return report.results[0]
