"""`doctor` on a machine that is no Linux: it says what is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_doctor_on_another_system_says_what_a_sandbox_needs_there(
    call: Call, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "memfd_create")
    answer = call("doctor", "--json", "--root", examples)
    sandboxes = [check for check in answer.data["checks"] if check["name"].startswith("sandbox ")]
    assert answer.code == 1
    assert [check["name"] for check in sandboxes] == ["sandbox bwrap", "sandbox landlock", "sandbox container"]
    assert {(check["status"], check["detail"]) for check in sandboxes[:2]} == {
        ("error", "sandboxes need Linux, and this is darwin")
    }
    assert sandboxes[2]["status"] == "error"
    assert "need an image" in sandboxes[2]["detail"]
    assert all("container-image" in check["fix"] for check in sandboxes)
