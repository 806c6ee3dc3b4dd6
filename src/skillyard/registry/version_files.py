"""The files of installed versions: stored, restored, checked for edits, deleted; and brought together with their records.

The link `current` on the disk decides: the version it names is complete and current. `recover` settles operations that failed
or were killed, `backfill` writes records for versions that are on the disk only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from skillyard.catalog.skill_files import KeptLink, kept_links, links_folder, read_kept_link
from skillyard.errors import (
    DatabaseUnavailable,
    DigestMismatch,
    DiskFull,
    LocalEdits,
    SkillyardError,
    StoreFailed,
    VersionUnusable,
)
from skillyard.files import replace_file
from skillyard.packages import Origin, Package, Store, extract, find_skills, pack, tree_digest
from skillyard.registry.candidate import read_candidate
from skillyard.registry.requirements import locked_versions
from skillyard.registry.version_store import CURRENT, ensure_real_folder
from skillyard.scanner.late_links import LateLink
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.registry.registry_records import RegistryRecords
    from skillyard.registry.registry_values import SkillVersion
    from skillyard.registry.source_host_policy import LinkFetcher
    from skillyard.registry.version_store import Operations, RunningOperation, VersionStore
    from skillyard.scanner.late_links import LinkKind


_LINK_LIMIT: Final = 1024 * 1024
NO_STORE_HINT: Final = "name the store in [packages] of your own skillyard.toml or in SKILLYARD_STORE, or install it again"


def store_package(store: Store, tree: Path, scratch: Path) -> Package:
    """Put the skill in `tree` into the store, whole; gives its package. Raises StoreFailed: it cannot be written."""
    target = scratch / f".{os.urandom(6).hex()}.zip"
    try:
        package = pack(tree, target, whole=True)
        store.put(target.read_bytes(), package.archive_sha256)
        return package
    finally:
        target.unlink(missing_ok=True)


def restore_version(
    store: Store | None, versions: VersionStore, records: RegistryRecords, version: SkillVersion, scratch: Path
) -> None:
    """Bring the files of a version back from the store; they have reached the disk.

    Raises:
        StoreFailed: no store is configured.
        PackageMissing, StoreFailed: the store does not give it.
        DigestMismatch: it is not what was installed.
    """
    if store is None:
        raise StoreFailed(f"no store has {version.skill_id} {version.version}: none is configured", hint=NO_STORE_HINT)
    archive, into = scratch / "restored.zip", scratch / "restored"
    archive.write_bytes(store.get(str(version.package_digest)))
    into.mkdir()
    (skill,) = find_skills(extract(archive, into).tree)
    actual = tree_digest(skill.directory)
    if actual != version.digest:
        raise DigestMismatch(
            f"the store has other content of {version.skill_id} {version.version} than was installed",
            hint="install it again from its source",
            expected=version.digest,
            found=actual,
        )
    versions.place(skill.directory, version.skill_id, version.version)
    records.mark(version.skill_id, version.version, "restore", removed_at=None)


def refuse_local_edits(versions: VersionStore, records: RegistryRecords, skill_id: str, version: str, *, force: bool) -> str:
    """The digest of a version as it is on the disk. Raises LocalEdits: it is not what was installed, and no `force`."""
    path = versions.path(skill_id, version)
    actual = tree_digest(path)
    recorded = next((one.digest for one in records.read.versions(skill_id) if one.version == version), actual)
    if actual != recorded and not force:
        raise LocalEdits(
            f"{path} was changed by hand since it was installed",
            hint="copy your changes to a skill of your own, or use --force: the changed version stays on the disk",
            path=str(path),
        )
    return actual


def discard_version(versions: VersionStore, records: RegistryRecords, version: SkillVersion, scratch: Path) -> None:
    """Delete the files of a version and forget its package; the caller holds the lock of the skill.

    Raises:
        VersionUnusable: it is current, an agent is locked to it, or it is being read.
        LocalEdits: it was changed by hand.
    """
    skill_id, name = version.skill_id, version.version
    if versions.current(skill_id) == name:
        raise VersionUnusable(
            f"{skill_id} {name} is the current version", hint="roll back to another one first, or uninstall the skill"
        )
    if name in locked_versions(records.read.versions(skill_id), records.read.locks(skill_id)):
        raise VersionUnusable(f"an agent is locked to {skill_id} {name}", hint="remove the lock first")
    if versions.path(skill_id, name).is_dir():
        refuse_local_edits(versions, records, skill_id, name, force=False)
        if not versions.remove(skill_id, name, scratch):
            raise VersionUnusable(f"{skill_id} {name} is being read", hint="try again")
    records.mark(skill_id, name, "discard", removed_at=datetime.now(UTC), package_digest=None)


def discard_all_versions(versions: VersionStore, records: RegistryRecords, skill_id: str, scratch: Path) -> tuple[str, ...]:
    """Delete the files of every version that is not being read; give their names."""
    return tuple(name for name in versions.names(skill_id) if _remove_version(versions, records, skill_id, name, scratch))


def prune_versions(
    versions: VersionStore, records: RegistryRecords, skill_id: str, scratch: Path, *, keep: int
) -> tuple[str, ...]:
    """Delete the files of all but the newest `keep` versions; give their names.

    Never of a version that is current, in use, locked or changed by hand. The caller holds the lock of the skill.
    """
    there = [version for version in records.read.versions(skill_id) if not version.removed]
    needed = {versions.current(skill_id), *locked_versions(there, records.read.locks(skill_id))}
    return tuple(
        old.version
        for old in there[keep:]
        if old.version not in needed
        and not ((path := versions.path(skill_id, old.version)).is_dir() and tree_digest(path) != old.digest)
        and _remove_version(versions, records, skill_id, old.version, scratch)
    )


def _remove_version(versions: VersionStore, records: RegistryRecords, skill_id: str, version: str, scratch: Path) -> bool:
    """Delete the files of a version unless they are being read, and record that; whether they are deleted."""
    deleted = versions.remove(skill_id, version, scratch) or not versions.path(skill_id, version).exists()
    if deleted:
        write_kept_links(versions.path(skill_id, version), (), {})
        records.mark(skill_id, version, "prune", removed_at=datetime.now(UTC))
    return deleted


def write_kept_links(version: Path, links: Sequence[KeptLink], contents: Mapping[str, bytes]) -> None:
    """Keep what a version tells to fetch, its `contents` by SHA-256; what no version of the skill names any more is deleted.

    The caller holds the lock of the skill.
    """
    folder, name = links_folder(version)
    if links:
        ensure_real_folder(folder.parent, 0o755)
        ensure_real_folder(folder, 0o755)
        for sha256, content in contents.items():
            replace_file(folder / sha256, content, mode=0o644)
        replace_file(folder / name, json.dumps([one.to_dict() for one in links]).encode() + b"\n", mode=0o644)
    elif folder.is_dir():
        (folder / name).unlink(missing_ok=True)
    else:
        return
    lists = [version.parent / entry.stem for entry in folder.glob("*.json")]
    named = {one.sha256 for each in lists for one in kept_links(each)}
    for entry in folder.iterdir():
        if entry.suffix != ".json" and entry.name not in named:
            entry.unlink()
    if not lists:
        with contextlib.suppress(OSError):
            folder.rmdir()


@dataclass(frozen=True, slots=True)
class KeptLinkState(WireForm):
    """How a kept link is: `ok`, `damaged` on the disk, `changed` at its address, or `unknown`, for nobody answers there."""

    skill_id: str
    address: str
    state: Literal["ok", "damaged", "changed", "unknown"]
    reason: str = ""


def kept_link_states(
    versions: VersionStore, serving: Mapping[str, str], upstream: LinkFetcher | None = None
) -> tuple[KeptLinkState, ...]:
    """How the kept links of `serving` versions, by the ids of their skills, are; with `upstream` also at their addresses."""
    states: list[KeptLinkState] = []
    for skill_id, version in sorted(serving.items()):
        path = versions.path(skill_id, version)
        kept = [one for one in kept_links(path) if one.sha256]
        links = [LateLink(cast("LinkKind", one.kind), one.address, one.file, one.line) for one in kept]
        there = upstream.fetch(links, {})[0] if upstream else ()
        now = {one.address: one for one in there}
        states += [_kept_link_state(path, skill_id, one, now.get(one.address)) for one in kept]
    return tuple(states)


def _kept_link_state(path: Path, skill_id: str, kept: KeptLink, now: KeptLink | None) -> KeptLinkState:
    try:
        read_kept_link(path, kept.address, limit=_LINK_LIMIT)
    except SkillyardError:
        return KeptLinkState(skill_id, kept.address, "damaged", "the copy is not what was kept, or is gone")
    if now is None or now.sha256 == kept.sha256:
        return KeptLinkState(skill_id, kept.address, "ok")
    if not now.sha256:
        return KeptLinkState(skill_id, kept.address, "unknown", now.problem)
    return KeptLinkState(
        skill_id, kept.address, "changed", f"sha256 {now.sha256[:12]} is there, and {kept.sha256[:12]} is kept"
    )


def recover(operations: Operations, versions: VersionStore, records: RegistryRecords) -> int:
    """Settle every operation whose process has ended; give how many there were."""
    count = 0
    for operation in operations.abandoned():
        settle(operation, versions, records, None)
        count += 1
    return count


def settle(operation: RunningOperation, versions: VersionStore, records: RegistryRecords, error: BaseException | None) -> None:
    """Bring disk and records of one operation together, and end its logs; `error` is None when its process was killed."""
    for skill_id in records.read.touched(operation.id):
        with versions.locked(skill_id):
            _settle_skill(operation, skill_id, versions, records)
    records.logs.fail(operation.id, error)
    operation.settled = True


@contextlib.contextmanager
def settling(operation: RunningOperation, versions: VersionStore, records: RegistryRecords) -> Iterator[None]:
    """Carry out an operation: it is settled at the end, and at once when something is raised."""
    try:
        yield
    except BaseException as error:
        full = DiskFull.of(error)
        with contextlib.suppress(DatabaseUnavailable):  # then the next start does it
            settle(operation, versions, records, full or error)
        if full is not None:
            raise full from error
        raise
    operation.settled = True


def _settle_skill(operation: RunningOperation, skill_id: str, versions: VersionStore, records: RegistryRecords) -> None:
    current = versions.current(skill_id)
    for version in records.read.installing(operation.id, skill_id):
        if version == current:
            records.activate(skill_id, version, action="recover")
            records.logs.end_interrupted(operation.id, skill_id)
        else:
            versions.remove(skill_id, version, operation.folder)
            records.fail_version(skill_id, version)
    recorded = records.read.skill(skill_id)
    if recorded is None or recorded.current_version == current:
        return
    if current is None:
        records.deactivate(skill_id)
    elif current in records.read.version_names(skill_id):
        records.activate(skill_id, current, action="recover")
    records.logs.end_interrupted(operation.id, skill_id)


@dataclass(frozen=True, slots=True)
class BackfillReport(WireForm):
    """The result: `versions` as `skill_id@version`, and `problems`, one sentence for each folder without a version."""

    versions: tuple[str, ...]
    added: tuple[str, ...]
    problems: tuple[str, ...]


def backfill(
    versions: VersionStore, operations: Operations, records: RegistryRecords, store: Store | None = None
) -> BackfillReport:
    """Record every version on the disk; with a `store` put the packages there that it lacks."""
    seen: list[str] = []
    added: list[str] = []
    problems: list[str] = []
    with operations.begin() as operation:
        operation.settled = True  # it opens no log
        for skill_id in versions.skills():
            with versions.locked(skill_id):
                try:
                    _adopt_folder(skill_id, versions, records, operation.folder)
                    recorded = records.read.version_names(skill_id)
                    for version in versions.names(skill_id):
                        _backfill_version(skill_id, version, versions, records)
                        seen.append(f"{skill_id}@{version}")
                        added += [seen[-1]] if version not in recorded else []
                    if store is not None:
                        _keep_packages(skill_id, versions, records, store, operation.folder)
                except (SkillyardError, OSError) as error:
                    problems.append(f"{versions.home(skill_id)}: {error}")
    return BackfillReport(tuple(seen), tuple(added), tuple(problems))


def _backfill_version(skill_id: str, version: str, versions: VersionStore, records: RegistryRecords) -> None:
    path = versions.path(skill_id, version)
    candidate = read_candidate(path, Origin("folder", str(path)), folder_name=skill_id, skill_id=skill_id)
    records.adopt(candidate, version, path, current=versions.current(skill_id) == version)


def _keep_packages(skill_id: str, versions: VersionStore, records: RegistryRecords, store: Store, scratch: Path) -> None:
    for version in records.read.versions(skill_id):
        folder = versions.path(skill_id, version.version)
        kept = version.package_digest is not None and store.has(version.package_digest)
        if not kept and folder.is_dir() and tree_digest(folder) == version.digest:
            package = store_package(store, folder, scratch)
            records.mark(skill_id, version.version, "store", package_digest=package.archive_sha256)


def _adopt_folder(skill_id: str, versions: VersionStore, records: RegistryRecords, scratch: Path) -> None:
    """Make a version of a real folder `current`; one that was moved and not yet linked to is linked to now."""
    folder = versions.home(skill_id) / CURRENT
    if folder.is_dir() and not folder.is_symlink():
        version = versions.free_name(skill_id, records.read.version_names(skill_id))
        folder.rename(versions.path(skill_id, version))
        versions.activate(skill_id, version, scratch)
    elif versions.current(skill_id) is None and records.read.skill(skill_id) is None:
        with contextlib.suppress(IndexError):
            versions.activate(skill_id, versions.names(skill_id)[-1], scratch)
