"""A version that is deleted for good."""

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


def test_a_discarded_version_is_gone_from_the_disk_and_stays_written_down(any_registry: Registry, write: Write) -> None:
    first, _ = _two(any_registry, write)
    gone = any_registry.discard("tidy", first)
    assert (gone.removed, gone.package_digest) == (True, None)
    assert not (any_registry.root / "tidy" / first).exists()
    with pytest.raises(VersionUnusable):
        any_registry.rollback("tidy", first)
    assert any_registry.install(str(write(body="One."))).results[0].status == "updated"


def test_what_serves_or_was_changed_by_hand_is_not_discarded(registry: Registry, write: Write) -> None:
    first, second = _two(registry, write)
    with pytest.raises(VersionUnusable, match="serves"):
        registry.discard("tidy", second)
    file = registry.root / "tidy" / first / "SKILL.md"
    file.chmod(0o644)
    file.write_text("mine", "utf-8")
    with pytest.raises(LocalEdits):
        registry.discard("tidy", first)
    assert file.exists()


def test_what_a_publisher_says_of_a_version_is_kept(registry: Registry, write: Write) -> None:
    registry.install(Source("folder", str(write()), version="1.4.0", notes="Tidier than ever."))
    origin = registry.current("tidy").origin
    assert (origin["version"], origin["notes"]) == ("1.4.0", "Tidier than ever.")
