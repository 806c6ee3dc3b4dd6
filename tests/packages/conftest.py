"""A folder to unpack archives in, and a watch on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.errors import ArchiveRefused
from skillyard.packages import PackageLimits, extract

_USUAL = PackageLimits()
Refused = Callable[..., ArchiveRefused]


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """Where archives are unpacked; `outside` beside it must stay as it is."""
    (tmp_path / "staging").mkdir()
    (tmp_path / "outside").write_text("mine")
    return tmp_path / "staging"


@pytest.fixture
def refused(tmp_path: Path, staging: Path) -> Refused:
    """Give a function that unpacks bytes and returns the refusal, having seen that nothing is left or was touched."""

    def run(data: bytes, name: str = "package", limits: PackageLimits = _USUAL) -> ArchiveRefused:
        archive = tmp_path / name
        archive.write_bytes(data)
        with pytest.raises(ArchiveRefused) as caught:
            extract(archive, staging, limits)
        assert os.listdir(staging) == []
        assert sorted(os.listdir(tmp_path)) == sorted(["outside", name, "staging"])
        assert (tmp_path / "outside").read_text() == "mine"
        assert caught.value.hint
        return caught.value

    return run
