"""Mirrors: a registry's skills carried to a folder, a bucket, the web, and from there into another registry."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from skillyard.errors import (
    ConsentRequired,
    DigestMismatch,
    InvalidConfiguration,
    InvalidSource,
    NoSkillInside,
    PackageMissing,
    SignerChanged,
    SkillyardError,
    StoreFailed,
)
from skillyard.packages import SigningKey, Source, pack, sign_tree, tree_digest
from skillyard.registry import Registry, SourceFetcher
from skillyard.registry.mirror_locations import INDEX_FILE, MirrorIndex, StoredMirror, open_mirror, open_mirror_target
from skillyard.registry.registry_mirror import RegistryMirror, compare_mirrors, copy_mirror, import_mirror, plan_import


@pytest.fixture(params=["folder", "bucket"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a mirror may be kept."""
    if request.param == "folder":
        return str(tmp_path / "mirror")
    return f"{request.getfixturevalue('bucket')}/mirror"


@pytest.fixture
def place(registry: Registry, data: Path) -> RegistryMirror:
    """The registry as a mirror."""
    return RegistryMirror(registry, str(data))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Registry]:
    """Another registry."""
    found = Registry(str(tmp_path / "other"), fetcher=SourceFetcher(allow_private=True))
    yield found
    found.close()


def _digests(registry: Registry, skill_id: str = "tidy") -> list[str]:
    return [version.digest for version in registry.installed.versions(skill_id)]


def test_what_is_installed_goes_through_a_mirror_to_another_registry(
    address: str, registry: Registry, place: RegistryMirror, other: Registry, write: Any
) -> None:
    installed = registry.install(str(write())).results[0]
    mirror = open_mirror_target(address)
    outcome = copy_mirror(place, mirror)
    assert (outcome.added, outcome.packages) == (("tidy",), 1)
    (result,) = import_mirror(other, mirror, address).results
    assert (result.status, result.digest) == ("installed", installed.digest)
    assert tree_digest(other.storage.versions.path("tidy", str(result.version))) == installed.digest
    assert other.installed.current("tidy").origin == {"kind": "mirror", "address": address, "path": "tidy"}


def test_what_is_there_is_not_carried_again(address: str, registry: Registry, place: RegistryMirror, write: Any) -> None:
    registry.install(str(write()))
    mirror = open_mirror_target(address)
    copy_mirror(place, mirror)
    assert compare_mirrors(place, mirror).same
    assert (copy_mirror(place, mirror).packages, copy_mirror(place, mirror).same) == (0, True)
    registry.install(str(write(body="newer")))
    assert compare_mirrors(place, mirror).changed == ("tidy",)
    assert copy_mirror(place, mirror).packages == 1


def test_an_import_brings_what_is_lacking_and_nothing_twice(
    address: str, registry: Registry, place: RegistryMirror, other: Registry, write: Any
) -> None:
    registry.install(str(write()))
    mirror = open_mirror_target(address)
    copy_mirror(place, mirror)
    assert plan_import(other, mirror).serve == ("tidy",)
    import_mirror(other, mirror, address)
    assert plan_import(other, mirror).same
    assert import_mirror(other, mirror, address).results == ()
    registry.install(str(write(body="newer")))
    copy_mirror(place, mirror)
    (result,) = other.update("tidy").results
    assert (result.status, result.digest) == ("updated", registry.installed.current("tidy").digest)


def test_the_history_comes_along_when_it_is_wanted_and_can_serve_again(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    for number in range(3):
        registry.install(str(write(body=str(number))))
    address = str(tmp_path / "mirror")
    mirror = open_mirror_target(address)
    copy_mirror(place, mirror)
    outcome = import_mirror(other, mirror, address, history=True)
    assert [result.status for result in outcome.results] == ["installed", "kept", "kept"]
    assert _digests(other) == _digests(registry)
    assert other.installed.current("tidy").digest == registry.installed.current("tidy").digest
    assert other.rollback("tidy").digest == _digests(registry)[1]


def test_no_more_of_the_history_comes_than_would_be_kept(
    registry: Registry, place: RegistryMirror, write: Any, tmp_path: Path
) -> None:
    for number in range(4):
        registry.install(str(write(body=str(number))))
    address = str(tmp_path / "mirror")
    copy_mirror(place, open_mirror_target(address))
    small = Registry(str(tmp_path / "small"), keep=2)
    assert len(import_mirror(small, open_mirror(address), address, history=True).results) == 2
    assert plan_import(small, open_mirror(address), history=True).same
    small.close()


def test_a_version_that_was_yanked_there_is_yanked_here(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    address = str(tmp_path / "mirror")
    mirror = open_mirror_target(address)
    registry.install(str(write()))
    copy_mirror(place, mirror)
    import_mirror(other, mirror, address)
    old = registry.installed.current("tidy").version
    registry.install(str(write(body="newer")))
    registry.versions.yank("tidy", old, reason="it deletes too much")
    copy_mirror(place, mirror)
    assert import_mirror(other, mirror, address).marked == 1
    newer, older = other.installed.versions("tidy")
    assert (newer.yanked, older.yanked, older.yanked_reason) == (False, True, "its publisher: it deletes too much")


def test_more_power_needs_consent_here_too(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    address = str(tmp_path / "mirror")
    mirror = open_mirror_target(address)
    registry.install(str(write()))
    copy_mirror(place, mirror)
    import_mirror(other, mirror, address)
    before = other.installed.current("tidy")
    registry.install(str(write(files={"scripts/new.py": "print(1)\n"})), consent=lambda changes: True)
    copy_mirror(place, mirror)
    with pytest.raises(ConsentRequired):
        import_mirror(other, mirror, address)
    assert other.installed.current("tidy") == before
    assert import_mirror(other, mirror, address, consent=lambda changes: True).results[0].status == "updated"


def test_another_signer_is_refused_from_a_mirror_too(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    address = str(tmp_path / "mirror")
    mirror = open_mirror_target(address)
    source = write()
    sign_tree(source, SigningKey.new())
    registry.install(str(source))
    copy_mirror(place, mirror)
    import_mirror(other, mirror, address)
    sign_tree(source, SigningKey.new())
    registry.install(str(source), accept_signer=True)
    copy_mirror(place, mirror)
    with pytest.raises(SignerChanged):
        import_mirror(other, mirror, address)


def test_a_damaged_package_is_refused_and_nothing_of_it_serves(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    address = tmp_path / "mirror"
    registry.install(str(write()))
    copy_mirror(place, open_mirror_target(str(address)))
    (package,) = (path for path in (address / "packages").rglob("*") if path.is_file())
    package.chmod(0o600)
    package.write_bytes(package.read_bytes()[:-1])
    mirror = StoredMirror(str(address))
    assert len(compare_mirrors(place, mirror).missing) == 1
    with pytest.raises(DigestMismatch):
        import_mirror(other, mirror, str(address))
    assert other.installed.skills() == ()
    assert copy_mirror(place, mirror, verify=True).packages == 1
    assert compare_mirrors(place, mirror).same
    package.unlink()
    with pytest.raises(PackageMissing):
        copy_mirror(mirror, open_mirror_target(str(tmp_path / "copy")))
    assert not (tmp_path / "copy" / INDEX_FILE).exists()
    assert copy_mirror(place, mirror).packages == 1
    assert compare_mirrors(place, mirror).same


def test_a_list_that_names_another_content_is_refused(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    address = tmp_path / "mirror"
    registry.install(str(write()))
    copy_mirror(place, open_mirror_target(str(address)))
    text = (address / INDEX_FILE).read_text()
    (address / INDEX_FILE).write_text(text.replace(registry.installed.current("tidy").digest, "sha256:" + "0" * 64))
    with pytest.raises(DigestMismatch):
        import_mirror(other, open_mirror(str(address)), str(address))
    assert other.installed.skills() == ()


@pytest.mark.parametrize("lie", ["9.9.9", None])
def test_a_list_that_names_another_version_is_refused(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path, lie: str | None
) -> None:
    address = tmp_path / "mirror"
    registry.install(str(write(header="version: 1.0.0\n")))
    copy_mirror(place, open_mirror_target(str(address)))
    index = json.loads((address / INDEX_FILE).read_text())
    index["skills"][0]["versions"][0]["declaredVersion"] = lie
    (address / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(DigestMismatch, match=r"as version (9\.9\.9|\(none\)), and its SKILL\.md says 1\.0\.0") as refused:
        other.install(Source("mirror", str(address), path="tidy"))
    assert "nothing was installed" in str(refused.value.hint)
    assert other.installed.skills() == ()


def test_what_a_publisher_calls_a_version_goes_through_a_mirror(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    registry.install(Source("upload", str(pack(write(), tmp_path / "tidy.zip").path), version="3.1.0"))
    copy_mirror(place, open_mirror_target(str(tmp_path / "mirror")))
    for ref in ("", "3.1.0", "^3"):
        (result,) = other.install(Source("mirror", str(tmp_path / "mirror"), path="tidy", ref=ref)).results
        assert (other.installed.current("tidy").label, result.declared_version) == ("3.1.0", None)
    with pytest.raises(NoSkillInside, match="no version '4"):
        other.install(Source("mirror", str(tmp_path / "mirror"), path="tidy", ref="4.0.0"))


def test_a_folder_behind_a_web_server_is_a_mirror(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path, folder_server: Any
) -> None:
    registry.install(str(write()))
    copy_mirror(place, open_mirror_target(str(tmp_path / "mirror")))
    with folder_server(tmp_path) as site:
        mirror = open_mirror(f"{site}/mirror", allow_private=True)
        assert import_mirror(other, mirror, f"{site}/mirror").results[0].status == "installed"
        assert copy_mirror(mirror, open_mirror_target(str(tmp_path / "copy"))).packages == 1
        with pytest.raises(SkillyardError):
            open_mirror(f"{site}/mirror").index()  # this machine's own addresses are closed unless that is allowed
    first, second = (sorted(path.name for path in (tmp_path / name).rglob("*")) for name in ("mirror", "copy"))
    assert first == second


def test_only_the_chosen_skills_are_carried_and_the_others_stay(
    registry: Registry, place: RegistryMirror, write: Any, tmp_path: Path
) -> None:
    registry.install(str(write()))
    registry.install(str(write("other-skill")))
    mirror = open_mirror_target(str(tmp_path / "mirror"))
    copy_mirror(place, mirror, names=("tidy",))
    assert [skill.skill_id for skill in mirror.index().skills] == ["tidy"]
    copy_mirror(place, mirror, names=("other-skill",))
    assert [skill.skill_id for skill in mirror.index().skills] == ["other-skill", "tidy"]
    with pytest.raises(NoSkillInside):
        copy_mirror(place, mirror, names=("nothing",))


def test_what_was_changed_by_hand_is_not_carried(registry: Registry, place: RegistryMirror, write: Any, tmp_path: Path) -> None:
    registry.install(str(write()))
    folder = registry.storage.versions.path("tidy", registry.installed.current("tidy").version)
    shutil.copytree(folder, tmp_path / "copy")
    (folder / "SKILL.md").chmod(0o644)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Changed by hand.\n---\n")
    assert place.index() == MirrorIndex()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": "skillyard mirror 2", "skills": []}', '{"format": "skillyard mirror 1", "skills": [1]}',
        '{"format": "skillyard mirror 1", "skills": [{"skillId": "../x", "name": "x", "description": "", "versions": []}]}',
        '{"format": "skillyard mirror 1", "skills": ' + "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_mirror_is_reported(text: str, tmp_path: Path, other: Registry) -> None:
    (tmp_path / INDEX_FILE).write_text(text)
    with pytest.raises(InvalidSource):
        open_mirror(str(tmp_path)).index()
    with pytest.raises(InvalidSource):
        copy_mirror(open_mirror(str(tmp_path)), open_mirror_target(str(tmp_path / "new")))


def test_a_place_that_cannot_be_a_mirror_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="has no"):
        open_mirror(str(tmp_path / "nowhere")).index()
    with pytest.raises(InvalidConfiguration):
        open_mirror("ftp://example.com/mirror")
    with pytest.raises(InvalidSource):
        open_mirror_target("https://example.com/mirror")
    (tmp_path / "file").write_text("")
    with pytest.raises((InvalidSource, StoreFailed)):
        open_mirror_target(str(tmp_path / "file")).write_index(MirrorIndex())


def test_a_mirror_is_a_source_like_any_other(
    registry: Registry, place: RegistryMirror, other: Registry, write: Any, tmp_path: Path
) -> None:
    registry.install(str(write()))
    registry.install(str(write("other-skill")))
    copy_mirror(place, open_mirror_target(str(tmp_path / "mirror")))
    report = other.install(Source("mirror", str(tmp_path / "mirror")))
    assert [result.skill_id for result in report.results] == ["other-skill", "tidy"]


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(
        some.sampled_from(["skillId", "name", "description", "current", "versions", "version", "digest", "installedAt"]),
        inner, max_size=6,
    ),
    max_leaves=12,
)  # fmt: skip


@given(some.lists(_JSON, max_size=3))
def test_any_list_is_read_or_refused(skills: list[object]) -> None:
    data = json.dumps({"format": "skillyard mirror 1", "skills": skills}).encode()
    try:
        index = MirrorIndex.read(data, "here")
    except InvalidSource:
        return
    assert MirrorIndex.read(index.to_bytes(), "here") == index


@pytest.mark.abuse("H11")
@pytest.mark.parametrize(
    "change",
    [
        {"installedAt": "9999-12-31T23:59:59-23:59"},
        {"installedAt": "0001-01-01T00:00:00+23:59"},
        {"installedAt": "2026-01-01T00:00:00"},
        {"size": 10**300},
        {"size": -1},
        {"size": True},
        {"version": "../../x"},
        {"digest": "sha256:../../x"},
        {"package": "/etc/passwd"},
    ],
)
def test_a_version_that_no_mirror_could_have_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    version = {
        "version": "20260101-000000",
        "digest": "sha256:" + "0" * 64,
        "package": "sha256:" + "1" * 64,
        "size": 1,
        "installedAt": "2026-01-01T00:00:00+02:00",
    }
    skill = {"skillId": "tidy", "name": "tidy", "description": "Tidies.", "current": None}

    def read(more: dict[str, object]) -> MirrorIndex:
        listed = {"format": "skillyard mirror 1", "skills": [skill | {"versions": [version | more]}]}
        return MirrorIndex.read(json.dumps(listed).encode(), "there")

    assert MirrorIndex.read(read({}).to_bytes(), "there") == read({})
    with pytest.raises(InvalidSource):
        read(change)
