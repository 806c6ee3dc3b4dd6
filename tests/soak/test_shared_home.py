"""One home that a server, schedules and commands use at once, for a moment: what `make soak HOME_SHARED=1` does for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak.shared_home import soak_home


@pytest.mark.parametrize("turns", [5, pytest.param(30, marks=pytest.mark.long)])
def test_nothing_is_lost_while_a_server_and_commands_share_a_home_and_some_are_killed(tmp_path: Path, turns: int) -> None:
    report = soak_home(tmp_path / "shared", seconds=0, turns=turns, seed=16, workers=2)
    assert report.good, report.text()
    kinds = {name.partition(",")[0] for name in report.done}
    assert {"run", "history", "install", "disable", "backup", "schedule add", "agents create", "keys create"} <= kinds
    assert report.done["server, run"] > 0
    assert report.done["server, killed"] > 0
    assert report.promised > 10
