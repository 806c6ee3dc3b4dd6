"""A version that is only kept, and one that is deleted for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.errors import LocalEdits, VersionUnusable
from skillyard.packages import Source
from skillyard.registry import Registry

Write = Callable[..., Path]


def _two(registry: Registry, write: Write) -> tuple[str, str]:
    first = registry.install(str(write(body="One."))).results[0].version
    second = registry.install(str(write(body="Two."))).results[0].version
    assert first is not None
    assert second is not None
    return first, second


def test_a_version_can_be_kept_without_serving_and_serves_when_it_is_rolled_back_to(
    any_registry: Registry, write: Write
) -> None:
    first = any_registry.install(str(write(body="One."))).results[0].version
    kept = any_registry.install(str(write(body="Two.")), activate=False).results[0]
    assert (kept.status, any_registry.installed.current("tidy").version) == ("kept", first)
    newest = any_registry.installed.versions("tidy")[0]
    assert (newest.version, newest.status, newest.current) == (kept.version, "active", False)
    assert any_registry.installed.history("tidy")[0].status == "success"
    any_registry.rollback("tidy", kept.version)
    assert "Two." in (any_registry.root / "tidy/current/SKILL.md").read_text("utf-8")


def test_the_first_version_serves_whatever_is_said(registry: Registry, write: Write) -> None:
    registry.install(str(write()), activate=False)
    assert registry.installed.skill("tidy").active


def test_a_discarded_version_is_gone_from_the_disk_and_stays_written_down(any_registry: Registry, write: Write) -> None:
    first, _ = _two(any_registry, write)
    gone = any_registry.versions.discard("tidy", first)
    assert (gone.removed, gone.package_digest) == (True, None)
    assert not (any_registry.root / "tidy" / first).exists()
    with pytest.raises(VersionUnusable):
        any_registry.rollback("tidy", first)
    assert any_registry.install(str(write(body="One."))).results[0].status == "updated"


def test_what_serves_or_was_changed_by_hand_is_not_discarded(registry: Registry, write: Write) -> None:
    first, second = _two(registry, write)
    with pytest.raises(VersionUnusable, match="is the current version"):
        registry.versions.discard("tidy", second)
    file = registry.root / "tidy" / first / "SKILL.md"
    file.chmod(0o644)
    file.write_text("mine", "utf-8")
    with pytest.raises(LocalEdits):
        registry.versions.discard("tidy", first)
    assert file.exists()


def test_what_a_publisher_says_of_a_version_is_kept(registry: Registry, write: Write) -> None:
    registry.install(Source("folder", str(write()), version="1.4.0", notes="Tidier than ever."))
    origin = registry.installed.current("tidy").origin
    assert (origin["version"], origin["notes"]) == ("1.4.0", "Tidier than ever.")
