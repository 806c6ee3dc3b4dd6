"""Files that may be executed: as an archive says, and where it says nothing as their first bytes do."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from skillyard.packages import extract

SCRIPT = b"#!/bin/sh\necho hello\n"


def _packed(folder: Path, data: bytes, *, system: int, attributes: int) -> Path:
    """An archive of one file, packed on a system that says so much of its permissions."""
    entry = zipfile.ZipInfo("run")
    entry.create_system, entry.external_attr, entry.compress_type = system, attributes, zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(folder / "skill.zip", "w") as archive:
        archive.writestr(entry, data)
    return folder / "skill.zip"


@pytest.mark.parametrize(
    ("system", "attributes", "data", "executable"),
    [
        (0, 0x20, SCRIPT, True),  # packed on Windows, or by a browser
        (3, 0x20, SCRIPT, True),
        (0, 0x20, b"\x7fELF\x02", True),
        (0, 0x20, b"print(1)\n", False),
        (0, 0x20, b"", False),
        (0, 0x20, b"#", False),
        (3, (stat.S_IFREG | 0o644) << 16, SCRIPT, False),  # whoever packed it knew better
        (3, (stat.S_IFREG | 0o755) << 16, b"print(1)\n", True),
    ],
)
def test_what_may_be_executed(tmp_path: Path, system: int, attributes: int, data: bytes, executable: bool) -> None:
    archive = _packed(tmp_path, data, system=system, attributes=attributes)
    run = Path(extract(archive, tmp_path).tree, "run")
    assert run.read_bytes() == data
    assert os.access(run, os.X_OK) == executable
    assert stat.S_IMODE(run.stat().st_mode) == (0o755 if executable else 0o644)


def test_a_large_script_without_a_mode_is_whole(tmp_path: Path) -> None:
    data = SCRIPT + os.urandom(700_000)
    archive = _packed(tmp_path, data, system=0, attributes=0x20)
    assert Path(extract(archive, tmp_path).tree, "run").read_bytes() == data
