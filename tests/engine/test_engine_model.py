"""Installing, going back, yanking, running and cancelling in any order do what a few dictionaries say that they do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from skillyard import Catalog
from skillyard.engine import LocalEngine, PoolEngine, Records, RunFilter
from skillyard.errors import SkillNotFound, VersionUnusable
from skillyard.execution import RunError, RunRequest
from skillyard.plain_json import to_redacted_json
from skillyard.registry import Registry

SCRIPT = """
import json, sys, time
time.sleep(json.load(sys.stdin)["input"].get("s", 0))
print(json.dumps({{"output": {number}}}))
"""
MOST = 5  # versions that are kept


class Site(RuleBasedStateMachine):
    """One skill on a site, and what is known of it without looking."""

    catalog: ClassVar[Catalog]
    engine: ClassVar[LocalEngine | PoolEngine]
    registry: ClassVar[Registry]
    records: ClassVar[Records]
    folder: ClassVar[Path]
    numbers: ClassVar[Iterator[int]]

    def __init__(self) -> None:
        super().__init__()
        self.name = f"skill-{next(self.numbers)}"
        self.contents: dict[str, int] = {}
        self.current: str | None = None
        self.yanked: set[str] = set()
        self.deprecated: set[str] = set()
        self.ends: Counter[str] = Counter()

    @precondition(lambda self: len(self.contents) < MOST)
    @rule()
    def install(self) -> None:
        number = next(self.numbers)
        source = self.folder / str(number) / self.name
        (source / "scripts").mkdir(parents=True)
        (source / "SKILL.md").write_text(f"---\nname: {self.name}\ndescription: Counts. Use when a test runs.\n---\nCount.\n")
        (source / "scripts/execute.py").write_text(SCRIPT.format(number=number))
        (result,) = self.registry.install(str(source), accept_source=True).results
        assert result.version
        self.contents[result.version], self.current = number, result.version

    @precondition(lambda self: self.contents)
    @rule(pick=st.integers(0, MOST), force=st.booleans())
    def roll_back(self, pick: int, force: bool) -> None:
        version = sorted(self.contents)[pick % len(self.contents)]
        if version == self.current:
            return
        usable = version not in self.yanked and (force or version not in self.deprecated)
        try:
            self.registry.rollback(self.name, version, force=force, accept_source=True)
        except VersionUnusable:
            assert not usable
            return
        assert usable
        if self.current is not None:
            self.deprecated.add(self.current)
        self.deprecated.discard(version)
        self.current = version

    @precondition(lambda self: self.contents)
    @rule(pick=st.integers(0, MOST), undo=st.booleans())
    def yank(self, pick: int, undo: bool) -> None:
        version = sorted(self.contents)[pick % len(self.contents)]
        self.registry.versions.yank(self.name, version, undo=undo)
        self.yanked = self.yanked - {version} if undo else self.yanked | {version}

    @precondition(lambda self: self.current)
    @rule()
    def uninstall(self) -> None:
        self.registry.uninstall(self.name)
        self.current = None

    @rule()
    def run(self) -> None:
        try:
            run = asyncio.run(self._run())
        except SkillNotFound:
            assert self.current is None
            return
        assert self.current is not None
        assert (run.status, run.output) == ("ok", self.contents[self.current])
        self.ends["succeeded"] += 1

    async def _run(self) -> Any:
        self.catalog.refresh()
        return await self.engine.run(RunRequest(self.catalog.get(self.name), {}))

    @precondition(lambda self: self.current)
    @rule(elsewhere=st.booleans())
    def cancel(self, elsewhere: bool) -> None:
        asyncio.run(self._cancel(elsewhere=elsewhere))
        self.ends["cancelled"] += 1

    async def _cancel(self, *, elsewhere: bool) -> None:
        self.catalog.refresh()
        begun = await self.engine.begin(RunRequest(self.catalog.get(self.name), {"s": 60}))
        if elsewhere:
            self.records.journal.stop(begun.run_id, "cancelled", RunError("CANCELLED", "from elsewhere"))
        while not elsewhere and not await self.engine.cancel(begun.run_id):
            await asyncio.sleep(0)
        await asyncio.wait([begun.ended])
        assert begun.ended.exception() is None or elsewhere
        assert not self.records.journal.stop(begun.run_id, "failed", RunError("LATE", "too late"))

    @invariant()
    def the_records_say_what_happened(self) -> None:
        found = self.records.journal.list(RunFilter(skill=self.name), limit=200)
        assert Counter(record.state for record in found) == self.ends
        known = {version.version: version for version in self.registry.installed.versions(self.name)} if self.contents else {}
        assert set(known) == set(self.contents)
        assert {name for name, version in known.items() if version.yanked} == self.yanked
        serving = {skill.skill_id for skill in self.registry.installed.skills()}
        assert (self.name in serving) == (self.current is not None)
        if self.current is not None:
            assert self.registry.installed.current(self.name).version == self.current


def test_any_order_of_changes_runs_and_cancels_is_what_the_reference_says(
    engine: LocalEngine | PoolEngine,
    records: Records,
    database_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    Site.catalog = Catalog.discover(cwd=tmp_path, cache=False)
    Site.engine, Site.records = engine, records
    Site.registry, Site.folder, Site.numbers = Registry.of(Site.catalog), tmp_path / "sources", count()
    try:
        run_state_machine_as_test(
            Site, settings=settings(max_examples=max(2, settings().max_examples // 8), stateful_step_count=10)
        )
    finally:
        Site.registry.close()
        Site.catalog.records().close()


@pytest.fixture
def seen(tmp_path: Path) -> Catalog:
    """What a worker sees: whatever is installed."""
    return Catalog.discover(cwd=tmp_path, cache=False)


def test_half_a_pair_of_surrogates_is_recorded_as_what_any_answer_can_carry() -> None:
    assert to_redacted_json({"a\ud800": ["b\udfff", {"c": "\ud83d\ude00 \U0001f600"}]}) == {
        "a?": ["b?", {"c": "?? \U0001f600"}]
    }
