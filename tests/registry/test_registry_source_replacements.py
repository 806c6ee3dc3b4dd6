"""A name makes nothing an update: another source, another signer or none is asked, whichever way the content comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import SignerChanged, SkillyardError, SourceChanged
from skillyard.packages import SIGNATURE_FILE, Origin, SigningKey, Source, pack, sign_tree
from skillyard.registry import FetchedTree, ProjectLock, Registry, SourceFetcher, SourceReplacement
from skillyard.registry.mirror_locations import open_mirror, open_mirror_target
from skillyard.registry.registry_mirror import RegistryMirror, copy_mirror, import_mirror
from skillyard.registry.source_replacements import source_identity

GOOD, EVIL = Source("git", "https://example.com/good/skills"), Source("git", "https://example.com/evil/skills")


@pytest.fixture
def published(data: Path, write: Any) -> Iterator[Registry]:
    """A registry that fetches from git; each repository has its own skill `tidy`."""

    class Published:
        def fetch(self, source: Source, into: Path) -> FetchedTree:
            return FetchedTree(write(body=source.address), Origin("git", source.address), owned=False)

    registry = Registry(str(data), fetcher=SourceFetcher(others={"git": Published()}))
    yield registry
    registry.close()


def _asked(answers: bool) -> tuple[list[SourceReplacement], Callable[[Sequence[SourceReplacement]], bool]]:
    """What was asked, and who answers."""
    seen: list[SourceReplacement] = []

    def answer(changes: Sequence[SourceReplacement]) -> bool:
        seen.extend(changes)
        return answers

    return seen, answer


@pytest.mark.abuse("F23")
def test_a_namesake_from_another_repository_replaces_nothing_unasked(published: Registry) -> None:
    published.install(GOOD)
    with pytest.raises(SourceChanged) as refused:
        published.install(EVIL, consent=lambda changes: True)
    sentence = "it comes from https://example.com/evil/skills, and no longer from https://example.com/good/skills"
    assert sentence in refused.value.message
    assert "--accept-source" in (refused.value.hint or "")
    assert (refused.value.status, refused.value.details["replacements"][0]["kind"]) == (409, "source")
    assert published.installed.current("tidy").origin["address"] == GOOD.address
    assert published.installed.history("tidy")[0].error_code == "source_changed"
    seen, no = _asked(answers=False)
    with pytest.raises(SourceChanged):
        published.install(EVIL, replacing=no)
    assert [change.sentence for change in seen] == [sentence]
    (result,) = published.install(EVIL, replacing=_asked(answers=True)[1]).results
    assert (result.status, result.warnings) == ("updated", (sentence,))
    assert published.install(GOOD, accept_source=True).results[0].status == "updated"


@pytest.mark.parametrize("how", ["folder", "archive", "upload", "mirror"])
@pytest.mark.abuse("F23")
def test_a_skill_of_a_folder_is_replaced_by_no_other_source_unasked(
    how: str, registry: Registry, write: Any, tmp_path: Path
) -> None:
    registry.install(str(write()))
    stranger = Registry(str(tmp_path / "stranger"))
    mine = write(body="a stranger's")
    other = mine.rename(tmp_path / "stranger-tidy")
    stranger.install(str(other))
    copy_mirror(RegistryMirror(stranger, str(tmp_path / "stranger")), open_mirror_target(str(tmp_path / "mirror")))
    archive = pack(other, tmp_path / "tidy-2.0.zip").path
    sources = {
        "folder": Source("folder", str(other)), "archive": Source("archive", str(archive)),
        "upload": Source("upload", str(archive)), "mirror": Source("mirror", str(tmp_path / "mirror"), "tidy"),
    }  # fmt: skip
    before = registry.installed.current("tidy").version
    with pytest.raises(SourceChanged):
        registry.install(sources[how], force=True)
    assert registry.installed.current("tidy").version == before
    assert registry.install(sources[how], accept_source=True).results[0].status == "updated"
    stranger.close()


def test_an_import_of_a_mirror_asks_too(registry: Registry, write: Any, tmp_path: Path) -> None:
    registry.install(str(write()))
    stranger = Registry(str(tmp_path / "stranger"))
    stranger.install(str(write(body="a stranger's")))
    mirror = str(tmp_path / "mirror")
    copy_mirror(RegistryMirror(stranger, str(tmp_path / "stranger")), open_mirror_target(mirror))
    with pytest.raises(SourceChanged):
        import_mirror(registry, open_mirror(mirror), mirror)
    assert import_mirror(registry, open_mirror(mirror), mirror, accept_source=True).results[0].status == "updated"
    stranger.close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("archive", "/d/tidy-1.0.zip"), ("archive", "/d/tidy-1.1.tar.gz"), True),
        (("archive", "/d/tidy.zip"), ("archive", "/d/tidy-v2.zip"), True),
        (("archive", "/d/tidy.zip"), ("archive", "/e/tidy.zip"), False),
        (("archive", "/d/tidy.zip"), ("archive", "/d/deploy.zip"), False),
        (("archive", "/d/tidy.zip"), ("folder", "/d/tidy"), False),
        (("folder", "/d", "tidy"), ("folder", "/d/tidy"), True),
        (("folder", "/d/tidy"), ("folder", "/d/tidy2"), False),
        (("upload", "a.zip"), ("upload", "b.zip"), True),
        (("upload", "a.zip"), ("archive", "a.zip"), False),
        (("mirror", "https://m.org/mirror", "a"), ("mirror", "https://m.org/mirror", "b"), True),
        (("mirror", "https://m.org/a/b"), ("git", "https://m.org/a/b"), False),
        (("mirror", "s3://one/a"), ("mirror", "s3://two/a"), False),
        (("git", "https://github.com/a/s", "x"), ("address", "https://github.com/a/s/releases/x.zip"), True),
        (("git", "/srv/one.git"), ("git", "/srv/two.git"), False),
    ],
)
def test_which_sources_are_one(one: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    names = ("kind", "address", "path")
    first, second = (source_identity(dict(zip(names, origin, strict=False))) for origin in (one, other))
    assert (first == second) is same
    assert first
    assert second


def test_who_signed_what_is_installed_may_publish_anywhere(registry: Registry, write: Any, tmp_path: Path) -> None:
    key, folder = SigningKey.new(), write()
    sign_tree(folder, key)
    registry.install(str(folder))
    write(body="two")
    sign_tree(folder, key)
    assert registry.install(str(folder.rename(tmp_path / "elsewhere"))).results[0].status == "updated"


def test_the_same_content_from_elsewhere_changes_nothing_and_is_not_asked(published: Registry, write: Any) -> None:
    published.install(GOOD)
    assert published.install(str(write(body=GOOD.address))).results[0].status == "unchanged"


@pytest.fixture
def signed(registry: Registry, write: Any) -> SigningKey:
    """The key that signed the installed skill `tidy`."""
    key, folder = SigningKey.new(), write()
    sign_tree(folder, key)
    registry.install(str(folder))
    return key


@pytest.mark.parametrize("next_key", [None, SigningKey.new()], ids=["nobody", "somebody else"])
@pytest.mark.abuse("F23")
def test_a_lock_of_a_stranger_drops_no_signer(
    next_key: SigningKey | None, registry: Registry, signed: SigningKey, write: Any, tmp_path: Path
) -> None:
    folder = write(body="a stranger's")
    (folder / SIGNATURE_FILE).unlink()
    if next_key:
        sign_tree(folder, next_key)
    stranger = Registry(str(tmp_path / "stranger"))
    lock = ProjectLock(tmp_path)
    lock.record(stranger.install(str(folder)).results, stranger)
    for _ in range(2):
        with pytest.raises(SignerChanged) as refused:
            lock.sync(registry, force=True, consent=lambda changes: True)
    assert refused.value.status == 409
    assert registry.installed.current("tidy").signer == signed.public
    assert [result.status for result in lock.sync(registry, accept_signer=True)] == ["updated"]
    stranger.close()


@pytest.mark.abuse("F23")
def test_a_lock_from_another_source_is_asked(registry: Registry, write: Any, tmp_path: Path) -> None:
    registry.install(str(write()))
    stranger = Registry(str(tmp_path / "stranger"))
    lock = ProjectLock(tmp_path)
    lock.record(stranger.install(str(write(body="a stranger's").rename(tmp_path / "other"))).results, stranger)
    with pytest.raises(SourceChanged):
        lock.sync(registry)
    assert [result.status for result in lock.sync(registry, accept_source=True)] == ["updated"]
    stranger.close()


def test_a_lock_names_the_signer_and_holds_a_new_machine_to_it(
    registry: Registry, signed: SigningKey, write: Any, tmp_path: Path
) -> None:
    lock = ProjectLock(tmp_path)
    lock.record(registry.install(str(write())).results, registry)
    assert json.loads(lock.path.read_text("utf-8"))["skills"]["tidy"]["signer"] == signed.public
    text = lock.path.read_text("utf-8").replace(signed.public, SigningKey.new().public)
    lock.path.write_text(text, "utf-8")
    other = Registry(str(tmp_path / "another"))
    with pytest.raises(SignerChanged, match="the lock names"):
        lock.sync(other)
    assert other.installed.skills() == ()
    other.close()


def test_a_lock_is_not_written_without_the_signer_it_had(
    registry: Registry, signed: SigningKey, write: Any, tmp_path: Path
) -> None:
    lock = ProjectLock(tmp_path)
    lock.record(registry.install(str(write())).results, registry)
    before, other = lock.path.read_bytes(), Registry(str(tmp_path / "another"))
    folder = write(body="two")
    (folder / SIGNATURE_FILE).unlink()
    unsigned = other.install(str(folder)).results
    with pytest.raises(SignerChanged):
        lock.record(unsigned, other)
    assert lock.path.read_bytes() == before
    with pytest.raises(SignerChanged, match="the lock names"):
        other.install(str(write(body="three")), signers=lock.signers())
    lock.record(unsigned, other, accept_signer=True)
    assert lock.signers() == {}
    other.close()


def test_a_signer_in_a_lock_that_is_none_is_refused(registry: Registry, write: Any, tmp_path: Path) -> None:
    lock = ProjectLock(tmp_path)
    lock.record(registry.install(str(write())).results, registry)
    shape = json.loads(lock.path.read_text("utf-8"))
    shape["skills"]["tidy"]["signer"] = "ed25519:me"
    lock.path.write_text(json.dumps(shape), "utf-8")
    with pytest.raises(SkillyardError, match="the signer of tidy"):
        lock.entries()


@pytest.mark.abuse("F23")
def test_a_rollback_to_another_source_or_signer_is_asked(published: Registry, write: Any) -> None:
    published.install(EVIL)
    published.install(GOOD, accept_source=True)
    with pytest.raises(SourceChanged):
        published.rollback("tidy")
    assert published.installed.current("tidy").origin["address"] == GOOD.address
    assert published.rollback("tidy", accept_source=True).status == "rolled back"


@pytest.mark.abuse("F23")
def test_a_rollback_behind_the_first_signature_is_asked(registry: Registry, write: Any) -> None:
    folder = write()
    registry.install(str(folder))
    write(body="two")
    sign_tree(folder, SigningKey.new())
    registry.install(str(folder))
    with pytest.raises(SignerChanged, match="not signed"):
        registry.rollback("tidy")
    assert registry.rollback("tidy", replacing=lambda changes: [change.kind for change in changes] == ["signer"]).version


def test_an_inspection_says_that_source_and_signer_would_change(
    registry: Registry, signed: SigningKey, write: Any, tmp_path: Path
) -> None:
    folder = write(body="two")
    (folder / SIGNATURE_FILE).unlink()
    (found,) = registry.inspect(str(folder.rename(tmp_path / "elsewhere")))
    assert [refusal.code for refusal in found.refusals] == ["signer_changed", "source_changed"]
