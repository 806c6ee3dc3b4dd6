"""Progress of a long command: one line for a person who waits, and now and then a line in a log."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import screen
from skillyard.cli.install_support import InstallProgress
from skillyard.cli.screen import Screen
from skillyard.registry import ProgressEvent

Call = Callable[..., Any]


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool = True, quiet: bool = False, seconds: float = 1.0) -> str:
    stream = _Stream(terminal=terminal)
    clock = iter((0.0, seconds, seconds + 0.01))
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with screen.ScanProgress(Screen(quiet=quiet)) as count:
        count(1000, 9000)
        count(1001, 9000)
    return stream.getvalue()


def test_a_person_who_waits_sees_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shown(monkeypatch)
    assert "reading skills: 1,000 of 9,000" in shown
    assert "1,001" not in shown
    assert shown.endswith("\r\x1b[2K")


def test_a_short_scan_a_pipe_and_quiet_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, seconds=0.1) == ""
    assert _shown(monkeypatch, terminal=False) == ""
    assert _shown(monkeypatch, quiet=True) == ""


def test_a_log_gets_a_whole_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, terminal=False, seconds=11) == "reading skills: 1,000 of 9,000\n"
    assert _shown(monkeypatch, terminal=False, seconds=11, quiet=True) == ""


def test_an_installation_into_a_log_is_not_silent_either(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = _Stream(terminal=False), iter((0.0, 5.0, 11.0))
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with InstallProgress(Screen()) as show:
        show(ProgressEvent("download", 5, "tidy"))
        show(ProgressEvent("activate", 90, "ti\x1b]0;dy"))
    assert stream.getvalue() == "90%  ti]0;dy: activate\n"


def test_scan_counts_the_skills_it_is_through(
    call: Call, make_skill: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        make_skill(tmp_path / "skills", name)
    monkeypatch.setattr(screen, "_EVERY_LINE", 0.0)
    assert "scanning: 1 of 2\nscanning: 2 of 2\n" in call("scan", tmp_path / "skills").err
    assert "scanning" not in call("scan", tmp_path / "skills", "--quiet").err
    for look in ("--list", "--dry-run"):
        assert "looking at skills: 1 of 2\nlooking at skills: 2 of 2\n" in call("install", tmp_path / "skills", look).err
