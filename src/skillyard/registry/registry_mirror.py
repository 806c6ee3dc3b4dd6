"""Mirrors: everything a registry holds, copied to another one, also where there is no network.

`copy_mirror` goes from registry or mirror to mirror; packages go first and the index last, so that an interrupted copy can be
resumed. `import_mirror` installs what a registry lacks of a mirror, with consent, scanner, signatures and log; nothing is
uninstalled. A `RegistryMirror` is the registry itself as a mirror. A mirror is a folder, a bucket, or what a web server gives
out of either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from skillyard.catalog.skill_files import kept_links, read_kept_link
from skillyard.errors import DigestMismatch, FileProblem, NoSkillInside, PackageMissing, PackageProblem
from skillyard.files import replace_file
from skillyard.packages import LocalStore, Source, tree_digest
from skillyard.packages.digest import digest_hex
from skillyard.registry.mirror_locations import MirroredSkill, MirroredVersion, MirrorIndex, MirrorSource, StoredMirror
from skillyard.registry.registry_values import PUBLISHER
from skillyard.registry.version_files import store_package
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog.skill_files import KeptLink
    from skillyard.registry.oci_artifacts import PushedArtifact
    from skillyard.registry.registry import Registry
    from skillyard.registry.registry_values import InstalledSkill, InstallOptions, OperationResult, SkillVersion


CopyProgress = Callable[[int, int], object]
"""Called with how many packages are there, and how many there will be."""


@dataclass(frozen=True, slots=True)
class MirrorCopyReport(WireForm, also=("same",)):
    """What a copy did: ids that are `added`, `changed`, `removed` in the target's list; packages and bytes that were copied.

    `missing` are packages that the target lists and has not, or damaged: only a comparison looks for them.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    packages: int = 0
    size: int = 0
    missing: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the target was as the source already."""
        return not (self.added or self.changed or self.removed or self.missing)


def copy_mirror(
    source: MirrorSource,
    target: StoredMirror,
    *,
    names: tuple[str, ...] = (),
    verify: bool = False,
    progress: CopyProgress | None = None,
) -> MirrorCopyReport:
    """Make `target` hold what `source` holds; with `names` only those skills, and what else it holds stays.

    With `verify` what is there is read, and copied again when it is damaged.

    Raises:
        NoSkillInside: the source has none of a name.
        PackageMissing, DigestMismatch: a package of the source is missing or damaged; the list of the target stays as it was.
        StoreFailed, NetworkFailed, NetworkRefused: one of the two cannot be used.
    """
    index, before = source.index().select(names), target.find()
    listed = list(index.packages())
    copied = size = 0
    for number, (digest, _) in enumerate(listed, 1):
        if not (_is_intact(target, digest) if verify else target.has(digest)):
            data = source.package(digest)
            target.put(digest, data)
            copied, size = copied + 1, size + len(data)
        if progress is not None:
            progress(number, len(listed))
    after = _merged(before or MirrorIndex(), index) if names else index
    if after != before:
        target.write_index(after)
    outcome = _compared(before or MirrorIndex(), after)
    return MirrorCopyReport(outcome.added, outcome.changed, outcome.removed, copied, size)


def compare_mirrors(source: MirrorSource, target: StoredMirror, *, names: tuple[str, ...] = ()) -> MirrorCopyReport:
    """What a copy would do, and which packages that the target lists are `missing` or damaged there."""
    index, before = source.index().select(names), target.find() or MirrorIndex()
    outcome = _compared(before, _merged(before, index) if names else index)
    missing = tuple(digest for digest, _ in before.packages() if not _is_intact(target, digest))
    return MirrorCopyReport(outcome.added, outcome.changed, outcome.removed, missing=missing)


def _compared(before: MirrorIndex, after: MirrorIndex) -> MirrorCopyReport:
    old, new = _by_id(before), _by_id(after)
    return MirrorCopyReport(
        added=tuple(name for name in new if name not in old),
        changed=tuple(name for name, skill in new.items() if name in old and old[name] != skill),
        removed=tuple(name for name in old if name not in new),
    )


def _by_id(index: MirrorIndex) -> Mapping[str, MirroredSkill]:
    return {skill.skill_id: skill for skill in index.skills}


def _merged(before: MirrorIndex, more: MirrorIndex) -> MirrorIndex:
    merged = {**_by_id(before), **_by_id(more)}
    return MirrorIndex(tuple(merged[name] for name in sorted(merged)))


def _is_intact(mirror: MirrorSource, digest: str) -> bool:
    try:
        mirror.package(digest)
    except PackageProblem:
        return False
    return True


def push_all(
    registry: Registry, prefix: str, *, names: tuple[str, ...] = (), dry_run: bool = False, allow_private: bool = False
) -> tuple[PushedArtifact, ...]:
    """Push the current version of every installed skill to `PREFIX/SKILL_ID`; with `names` only of these.

    The tag is the declared version, else the version of the registry: a new version never moves the tag of another one.

    Raises:
        NoSkillInside: none has a name of `names`.
        SkillyardError: as `push_skill`; what was pushed before stays.
    """
    from skillyard.registry.oci_artifacts import push_skill, tag_of

    serving = registry.installed.serving()
    if missing := [name for name in names if name not in serving]:
        raise NoSkillInside(f"{missing[0]!r} is not installed", hint="`skillyard versions` lists what is")
    pushed = []
    for skill_id, version in sorted(serving.items()):
        if not names or skill_id in names:
            folder, address = registry.storage.versions.path(skill_id, version.version), str(version.origin.get("address", ""))
            target = f"{prefix.rstrip('/')}/{skill_id}:{tag_of(version.declared_version or version.version)}"
            origin = address if "://" in address else ""
            pushed.append(push_skill(folder, target, origin=origin, dry_run=dry_run, allow_private=allow_private))
    return tuple(pushed)


def _history_names(history: Sequence[tuple[str, MirroredVersion]]) -> list[str]:
    return [f"{skill_id}@{version.version}" for skill_id, version in history]


def _marked_names(marks: Sequence[tuple[SkillVersion, MirroredVersion]]) -> list[str]:
    return [f"{version.skill_id}@{version.version}" for version, _ in marks]


@dataclass(frozen=True, slots=True)
class MirrorImportPlan(WireForm, also=("same",)):
    """What a registry lacks of a mirror: ids whose current version differs here, versions of the history, and marks."""

    serve: tuple[str, ...]
    history: tuple[tuple[str, MirroredVersion], ...] = field(metadata=wire(write=_history_names))
    marks: tuple[tuple[SkillVersion, MirroredVersion], ...] = field(metadata=wire(write=_marked_names))

    @property
    def same(self) -> bool:
        """Whether nothing is lacking."""
        return not (self.serve or self.history or self.marks)


@dataclass(frozen=True, slots=True)
class MirrorImportReport(WireForm):
    """What an import did: a result for each version, and how many versions were marked."""

    results: tuple[OperationResult, ...] = field(default=())
    marked: int = 0


def plan_import(
    registry: Registry, mirror: MirrorSource, *, names: tuple[str, ...] = (), history: bool = False
) -> MirrorImportPlan:
    """What `import_mirror` would do, without doing it.

    Raises:
        InvalidSource, NoSkillInside: it is not a mirror, or has none of a name.
        StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
    """
    return _plan(registry, mirror.index().select(names), history=history)


def import_mirror(
    registry: Registry,
    mirror: MirrorSource,
    address: str,
    *,
    names: tuple[str, ...] = (),
    history: bool = False,
    **options: Unpack[InstallOptions],
) -> MirrorImportReport:
    """Install what `registry` lacks of the mirror at `address`; `options` are as for `Registry.install`.

    Each skill is an operation of its own: what was imported before one is refused stays; the next import continues there.
    The dependencies of the skills with these `names` are copied too.

    Raises:
        SkillyardError: as `Registry.install`, and as `plan_import`.
    """
    index = mirror.index().select(names)
    results: list[OperationResult] = []
    options.setdefault("dependencies", bool(names))
    before = _withdrawn(registry, index)
    plan = _plan(registry, index, history=history)
    for skill_id in plan.serve:
        source = Source("mirror", address, path=skill_id)
        results += registry.install(source, only=(skill_id,), **options).results
    kept: InstallOptions = {**options, "force": False, "dependencies": False}
    for skill_id, version in plan.history:
        source = Source("mirror", address, path=skill_id, ref=version.version)
        report = registry.install(source, only=(skill_id,), activate=False, installed_at=version.installed_at, **kept)
        results += report.results
    marks = _plan(registry, index, history=history).marks
    for installed, listed in marks:
        _mark(registry, installed, listed)
    return MirrorImportReport(tuple(results), len(_withdrawn(registry, index) - before))


def _withdrawn(registry: Registry, index: MirrorIndex) -> set[tuple[str, str]]:
    """The versions here, of the skills of a mirror, that are yanked or deprecated: id and version of each."""
    known = {skill.skill_id for skill in registry.installed.skills(uninstalled=True)}
    return {
        (version.skill_id, version.version)
        for skill in index.skills
        if skill.skill_id in known
        for version in registry.installed.versions(skill.skill_id)
        if version.withdrawn
    }


def _plan(registry: Registry, index: MirrorIndex, *, history: bool) -> MirrorImportPlan:
    here_by_id = {
        skill.skill_id: registry.installed.versions(skill.skill_id) for skill in registry.installed.skills(uninstalled=True)
    }
    current, older, marks = [], [], []
    for skill in index.skills:
        here = here_by_id.get(skill.skill_id, ())
        if skill.current and skill.version().yanked is None and not _is_current(here, skill):
            current.append(skill.skill_id)
        if history and skill.current:
            older += [(skill.skill_id, version) for version in _lacking(here, skill, registry.versions.keep)]
        marks += _marks(here, skill)
    return MirrorImportPlan(tuple(current), tuple(older), tuple(marks))


def _is_current(here: Sequence[SkillVersion], skill: MirroredSkill) -> bool:
    digest = skill.version().digest
    return any(version.current and version.digest == digest for version in here)


def _lacking(here: Sequence[SkillVersion], skill: MirroredSkill, keep: int) -> list[MirroredVersion]:
    """The versions of the history that are not here, the oldest first, of those newest that would be kept here.

    A yanked one is left out.
    """
    there = {version.digest for version in here if not version.removed} | {skill.version().digest}
    by_time = sorted(skill.versions, key=lambda version: version.installed_at)
    older = [version for version in by_time[-keep:] if version.yanked is None and version.digest not in there]
    return list({version.digest: version for version in older}.values())


def _marks(here: Sequence[SkillVersion], skill: MirroredSkill) -> list[tuple[SkillVersion, MirroredVersion]]:
    """The versions here whose content was deprecated or yanked there, and is neither here."""
    listed = {version.digest: version for version in skill.versions}
    pairs = [(version, listed[version.digest]) for version in here if version.digest in listed]
    return [
        (version, there)
        for version, there in pairs
        if (there.yanked is not None and not version.yanked)
        or (there.deprecated is not None and version.status != "deprecated" and not version.current)
    ]


def _mark(registry: Registry, installed: SkillVersion, listed: MirroredVersion) -> None:
    if listed.yanked is not None and not installed.yanked:
        registry.versions.yank(installed.skill_id, installed.version, reason=PUBLISHER + listed.yanked)
    if listed.deprecated is not None and installed.status != "deprecated" and not installed.current:
        registry.versions.deprecate(installed.skill_id, installed.version, reason=PUBLISHER + listed.deprecated)


def _withdrawal(version: SkillVersion) -> str | None:
    """Why other registries should withdraw a version: it was yanked, or lost its approval; None for others."""
    if version.yanked:
        return version.yanked_reason or ""
    lost = version.approval == "withdrawn"
    return "no longer approved" + (f": {version.approval_reason}" if version.approval_reason else "") if lost else None


_CACHE: Final = "cache/packages"


class RegistryMirror:
    """The installed skills of `registry` as a mirror; packages are kept in `cache/packages` of the folder `data`."""

    def __init__(self, registry: Registry, data: str) -> None:
        self._registry = registry
        self._store = LocalStore(Path(data) / _CACHE)
        self._names = Path(data) / _CACHE / "by-content"
        self._skills: dict[str, set[str]] = {}

    def index(self) -> MirrorIndex:
        """As `MirrorSource.index`; versions whose files are missing, or were changed by hand, are left out."""
        listed = [self._skill(skill) for skill in self._registry.installed.skills(uninstalled=True)]
        self._skills = {}
        for skill in listed:
            for version in skill.versions:
                for digest in (version.package, *version.link_digests()):
                    self._skills.setdefault(digest, set()).add(skill.skill_id)
        return MirrorIndex(tuple(skill for skill in listed if skill.versions))

    def skills_with(self, digest: str) -> frozenset[str]:
        """The ids of the skills that have a version with this package."""
        if digest not in self._skills:
            self.index()
        return frozenset(self._skills.get(digest, ()))

    def package(self, digest: str) -> bytes:
        """As `MirrorSource.package`."""
        return self._store.get(digest)

    def _skill(self, skill: InstalledSkill) -> MirroredSkill:
        versions = self._registry.installed.versions(skill.skill_id)
        there = [version for version in versions if not version.removed and version.approval != "waiting"]
        listed = tuple(entry for version in there if (entry := self._version(version)) is not None)
        current = skill.current_version if skill.current_version in {one.version for one in listed} else None
        return MirroredSkill(skill.skill_id, skill.name, skill.description, current, listed)

    def _version(self, version: SkillVersion) -> MirroredVersion | None:
        try:
            package, size = self._package(version)
        except (DigestMismatch, PackageMissing):
            return None
        assert version.installed_at is not None  # noqa: S101 # only versions that once were whole are listed
        when, action = (version.yanked_at, "yank") if version.yanked else (version.deprecated_at, "deprecate")
        return MirroredVersion(
            version=version.version,
            digest=version.digest,
            package=package,
            size=size,
            installed_at=version.installed_at.astimezone(UTC),
            declared_version=version.declared_version,
            label=version.label if version.label != (version.declared_version or "") else None,
            signer=version.signer,
            deprecated=(version.deprecated_reason or "") if version.status == "deprecated" else None,
            yanked=_withdrawal(version),
            withdrawn_at=when.astimezone(UTC) if when else None,
            withdrawn_by=self._registry.records.read.withdrawn_by(version.skill_id, version.version, action) if when else None,
            links=tuple(self._links(version)),
        )

    def _links(self, version: SkillVersion) -> Iterator[KeptLink]:
        """The kept links of a version, without damaged copies."""
        path = self._registry.storage.versions.path(version.skill_id, version.version)
        for one in kept_links(path):
            digest = f"sha256:{one.sha256}"
            if one.sha256 and not self._store.has(digest):
                try:
                    self._store.put(read_kept_link(path, one.address, limit=one.size).data, digest)
                except FileProblem:
                    continue
            yield one

    def _package(self, version: SkillVersion) -> tuple[str, int]:
        """The digest and size of a version's package; the content names it, so it is made once.

        Raises:
            DigestMismatch: the files were changed by hand.
            PackageMissing: they are missing.
        """
        cached = self._names / digest_hex(version.digest)
        with contextlib.suppress(FileNotFoundError, ValueError):
            digest, size = cached.read_text().split()
            if self._store.has(digest):
                return digest, int(size)
        folder = self._registry.storage.versions.path(version.skill_id, version.version)
        if not folder.is_dir():
            raise PackageMissing(f"the files of {version.skill_id} {version.version} were removed")
        if tree_digest(folder) != version.digest:
            raise DigestMismatch(f"{folder} was changed by hand since it was installed")
        self._names.mkdir(mode=0o700, parents=True, exist_ok=True)
        package = store_package(self._store, folder, self._names)
        replace_file(cached, f"{package.archive_sha256} {package.size}".encode(), durable=False)
        return package.archive_sha256, package.size
