"""Progress on a long scan: for a person who waits, never for a program."""

from __future__ import annotations

import io

import pytest

from skillyard.cli import screen
from skillyard.cli.screen import Screen


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool = True, quiet: bool = False, seconds: float = 1.0) -> str:
    stream = _Stream(terminal=terminal)
    clock = iter((0.0, seconds, seconds + 0.01, seconds + 1))
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
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
