"""One home that a server, schedules and commands use at once, for a moment: what `make soak HOME_SHARED=1` does for long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import preloaded
import pytest

from benchmarks.soak.shared_home import soak_home

HOOKED = """\
import os, runpy
runpy.run_path(os.environ["PYTHONPATH"] + "/sitecustomize.py")
runpy.run_module("skillyard", run_name="__main__", alter_sys=True)
"""


def fork(command: list[str], **options: Any) -> preloaded.Popen:
    """Start a command in a fork, with the hook that it would have found as it started."""
    program, _, module, *words = command
    assert module == "skillyard"
    return preloaded.Popen([program, "-c", HOOKED, *words], **options)


@pytest.mark.parametrize(
    ("turns", "how"),
    [(10, {"start": fork, "pace": 0.1}), pytest.param(30, {}, marks=pytest.mark.long)],
    ids=["as forks", "long"],
)
def test_nothing_is_lost_while_a_server_and_commands_share_a_home_and_some_are_killed(
    tmp_path: Path, turns: int, how: dict[str, Any]
) -> None:
    report = soak_home(tmp_path / "shared", seconds=0, turns=turns, seed=16, workers=2, **how)
    assert report.good, report.text()
    kinds = {name.partition(",")[0] for name in report.done}
    assert {"run", "history", "install", "disable", "backup", "schedule add", "agents create", "keys create"} <= kinds
    assert report.done["server, run"] > 0
    assert report.done["server, killed"] > 0
    assert report.promised > 10
