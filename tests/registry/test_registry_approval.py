"""Approval of exact versions: what waits, who approves it, and what a withdrawal does to those who use it or pinned it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillyard.access import Actor, AuditLog, acting_as
from skillyard.coding_agents import SkillsFolder
from skillyard.errors import (
    DigestMismatch,
    InvalidConfiguration,
    PermissionDenied,
    SecondPersonRequired,
    SkillNotFound,
    VersionNotApproved,
    VersionNotFound,
    VersionPinned,
)
from skillyard.packages import Source
from skillyard.registry import Registry, locked_versions
from skillyard.registry.candidate import ApprovalPolicy
from skillyard.registry.registry_mirror import RegistryMirror

Write = Callable[..., Path]
_SCRIPT: Mapping[str, str] = {"scripts/go.py": "print(1)\n"}


def _policy(registry: Registry, **values: tuple[str, ...]) -> None:
    registry.approvals.policy = ApprovalPolicy(**values)


@contextmanager
def _member(name: str, *scopes: str) -> Iterator[None]:
    with acting_as(Actor(name, member=True, scopes=scopes)):
        yield


def _current(registry: Registry, name: str = "tidy") -> str | None:
    return registry.storage.versions.current(name)


@pytest.mark.both_databases
def test_a_new_version_waits_while_the_approved_one_serves(any_registry: Registry, write: Write) -> None:
    registry = any_registry
    _policy(registry, sources=("*",))
    first = registry.install(str(write())).results[0]
    assert (first.status, first.previous, _current(registry)) == ("waiting", None, None)
    assert "what comes from * is approved first" in first.warnings[-1]
    with pytest.raises(SkillNotFound, match="waits for approval"):
        registry.installed.current("tidy")
    assert registry.approvals.approve("tidy", reason="read it").current
    second = registry.install(str(write(body="Do it twice."))).results[0]
    assert (second.status, second.previous, _current(registry)) == ("waiting", first.version, first.version)
    again = registry.install(str(write(body="Do it twice."))).results[0]
    assert (again.status, again.version) == ("waiting", second.version)  # it waits once
    assert [one.version for one in registry.approvals.listed()] == [second.version]
    with pytest.raises(VersionNotApproved, match="waits for approval"):
        registry.rollback("tidy", second.version, force=True)
    with pytest.raises(DigestMismatch):
        registry.approvals.approve("tidy", digest="sha256:" + "0" * 64)
    assert registry.approvals.approve("tidy", digest=str(second.digest)).version == second.version == _current(registry)
    assert registry.approvals.listed() == ()
    with pytest.raises(VersionNotFound, match="no version of tidy waits"):
        registry.approvals.approve("tidy")
    log = [(one.action, one.outcome) for one in AuditLog(lambda: registry.records.database).events()]
    assert [one for one in log if one[0] == "approve"] == [("approve", "success")] * 2


def test_an_approval_is_of_the_content_and_not_of_the_name(registry: Registry, write: Write) -> None:
    _policy(registry, sources=("*",))
    registry.install(str(write()))
    approved = registry.approvals.approve("tidy")
    registry.install(str(write(body="Other.")))
    registry.approvals.approve("tidy")
    assert registry.install(str(write())).results[0].status == "updated"  # content that has it needs no other
    assert registry.installed.current("tidy").digest == approved.digest


def test_only_what_the_policy_names_waits(registry: Registry, write: Write, tmp_path: Path) -> None:
    _policy(registry, sources=("upload",), second_person=("scripts",))
    assert registry.install(str(write("plain"))).results[0].status == "installed"
    assert registry.install(str(write("runs", files=dict(_SCRIPT)))).results[0].status == "waiting"
    archive = tmp_path / "sent.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("SKILL.md", "---\nname: sent\ndescription: Sent. Use when a test needs it.\n---\nDo it.\n")
    assert registry.install(Source("upload", str(archive))).results[0].status == "waiting"


@pytest.mark.both_databases
def test_some_powers_need_a_second_person(any_registry: Registry, write: Write) -> None:
    registry = any_registry
    _policy(registry, sources=("*",), second_person=("scripts",))
    with _member("ada", "skills:write", "skills:approve"):
        registry.install(str(write(files=dict(_SCRIPT))))
        registry.install(str(write("plain")))
        with pytest.raises(SecondPersonRequired, match=r"ada brought tidy .* here and may not approve it.* what has scripts"):
            registry.approvals.approve("tidy")
        assert registry.approvals.approve("plain").current  # nothing in it needs a second one
    with _member("eve", "skills:write"), pytest.raises(PermissionDenied, match="needs skills:approve"):
        registry.approvals.approve("tidy")
    with _member("bob", "skills:approve"):
        assert registry.approvals.approve("tidy").approval_by == "bob"
    registry.install(str(write(files={"scripts/go.py": "print(2)\n"})))
    with pytest.raises(SecondPersonRequired):  # the machine's own user is one person too
        registry.approvals.approve("tidy")
    with _member("ada", "skills:approve"):
        assert registry.approvals.approve("tidy").current


def test_what_was_there_before_the_policy_is_no_way_around_the_second_person(registry: Registry, write: Write) -> None:
    registry.install(str(write(files=dict(_SCRIPT))))
    before = registry.install(str(write(files={"scripts/go.py": "print(2)\n"}))).results[0]
    registry.rollback("tidy")
    _policy(registry, second_person=("*",))
    serving = _current(registry)
    with pytest.raises(VersionNotApproved):
        registry.rollback("tidy", before.version, force=True)
    with pytest.raises(SecondPersonRequired):
        registry.approvals.approve("tidy", before.version)
    with _member("bob", "skills:approve"):
        registry.approvals.approve("tidy", before.version)
    assert _current(registry) == serving  # it was rolled back from: it may be chosen again, and is not by itself
    assert registry.rollback("tidy", before.version, force=True).version == before.version


def test_names_of_keys_may_approve_as_well_as_scopes(registry: Registry, write: Write) -> None:
    _policy(registry, sources=("*",), by=("carol",))
    registry.install(str(write()))
    with _member("bob", "skills:approve", "admin"), pytest.raises(PermissionDenied, match="needs carol"):
        registry.approvals.approve("tidy")
    with _member("carol", "skills:read"):
        assert registry.approvals.approve("tidy").current


@pytest.mark.both_databases
def test_a_withdrawal_reaches_links_and_mirrors(any_registry: Registry, write: Write, tmp_path: Path) -> None:
    registry = any_registry
    _policy(registry, sources=("*",))
    registry.install(str(write()))
    first = registry.approvals.approve("tidy")
    agents = SkillsFolder(str(tmp_path / "agent" / "skills"), ("claude",))
    registry.links.add("tidy", str(registry.current_folder("tidy")[1]), [agents], skill_id="tidy")
    copies = SkillsFolder(str(tmp_path / "other" / "skills"), ("codex",))
    registry.links.add("tidy", str(registry.current_folder("tidy")[1]), [copies], skill_id="tidy", copy=True)
    registry.install(str(write(body="Do it twice.")))
    second = registry.approvals.approve("tidy")
    assert second.current
    placed = [tmp_path / place / "skills" / "tidy" / "SKILL.md" for place in ("agent", "other")]
    assert ["Do it twice." in one.read_text() for one in placed] == [True, True]

    gone = registry.approvals.withdraw("tidy", reason="it deletes files")
    assert (gone.version, gone.approval, gone.current, _current(registry)) == (
        second.version,
        "withdrawn",
        False,
        first.version,
    )
    assert ["Do it twice." in one.read_text() for one in placed] == [False, False]
    mirrored = RegistryMirror(registry, str(tmp_path / "mirror")).index().skills[0]
    listed = {one.version: one.yanked for one in mirrored.versions}
    assert listed == {second.version: "no longer approved: it deletes files", first.version: None}
    with pytest.raises(VersionNotApproved, match="no longer approved: it deletes files"):
        registry.install(str(write(body="Do it twice.")), force=True)
    assert locked_versions(registry.installed.versions("tidy"), [second.version]) == {second.version}  # a lock is a pin

    registry.approvals.withdraw("tidy")  # the last one: nothing serves
    assert (_current(registry), [one.exists() for one in placed]) == (None, [False, False])
    assert registry.approvals.approve("tidy", first.version).current
    assert [one.exists() for one in placed] == [True, True]


def test_a_pin_holds_and_says_that_its_version_is_no_longer_approved(registry: Registry, write: Write) -> None:
    _policy(registry, sources=("*",))
    registry.install(str(write()))
    registry.approvals.approve("tidy")
    pinned = registry.pin("tidy")
    registry.install(str(write(body="Do it twice."))).results[0]
    waiting = registry.approvals.approve("tidy")
    assert (waiting.approval, waiting.current, _current(registry)) == ("approved", False, pinned.version)
    still = registry.approvals.withdraw("tidy", pinned.version, reason="it deletes files")
    assert (still.current, still.refusal) == (True, "is no longer approved: it deletes files")
    assert dict(registry.installed.problems())["tidy"].startswith(
        f"its version {pinned.version} is no longer approved (it deletes files)"
    )
    with pytest.raises(VersionPinned):
        registry.update("tidy")
    registry.unpin("tidy")
    assert registry.rollback("tidy", waiting.version).version == waiting.version


def test_what_waits_is_not_given_out(registry: Registry, write: Write, tmp_path: Path) -> None:
    _policy(registry, sources=("*",))
    registry.install(str(write(header="version: 1.0.0\n")))
    first = registry.approvals.approve("tidy")
    waiting = registry.install(str(write(header="version: 1.1.0\n"))).results[0]
    mirror = RegistryMirror(registry, str(tmp_path / "mirror")).index().skills[0]
    assert [one.version for one in mirror.versions] == [first.version]
    assert locked_versions(registry.installed.versions("tidy"), ["^1.0", "1.1.0"]) == {first.version}
    assert registry.pending_update("tidy").reason == "it is here already, and waits for approval"
    seen = registry.inspect(str(write(body="New.")))[0]
    assert (seen.refusals, seen.warnings[-1]) == ((), "it will wait for approval (what comes from * is approved first)")
    assert registry.installed.version("tidy", waiting.version).refusal == "waits for approval"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"sources": "all"}, "packages.approval.sources must be a list of sources"),
        ({"by": []}, "packages.approval.by must be names of keys and scopes"),
        ({"by": ["skills:aprove"]}, "not 'skills:aprove'"),
        ({"second-person": ["root"]}, "packages.approval.second-person must be powers"),
        ({"who": ["ada"]}, "packages.approval.who"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(table: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        ApprovalPolicy.read(table, "/home/skillyard.toml")
    assert words in caught.value.message


def test_a_policy_is_read_from_one_table() -> None:
    table = {"sources": ["upload", "github:acme"], "by": ["admin", "carol"], "second-person": ["hosts", "*"]}
    policy = ApprovalPolicy.read(table, "skillyard.toml")
    assert policy == ApprovalPolicy(("upload", "github:acme"), ("admin", "carol"), ("hosts", "*"))
    acme = {"kind": "git", "address": "https://github.com/acme/skills.git"}
    assert policy.reasons(acme, None) == (
        "what comes from github:acme is approved first",
        "a second person approves every version",
    )
