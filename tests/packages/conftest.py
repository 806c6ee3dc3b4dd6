"""Archives as attackers and ordinary tools write them, and a folder to unpack them in."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.errors import ArchiveRefused
from skillyard.packages import Limits, extract

SKILL = b"---\nname: tidy\ndescription: Tidies up.\n---\nDo it.\n"
_USUAL = Limits()
Refused = Callable[..., ArchiveRefused]


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """A zip archive by the standard library."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644, pax: dict[str, str] | None = None
) -> tarfile.TarInfo:
    """One entry of a tar archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.pax_headers = kind, link, mode, pax or {}
    return info


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], compressed: bool = True, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive by the standard library."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, data in entries:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0) if compressed else buffer.getvalue()


def raw_zip(
    name: bytes,
    *,
    local: bytes | None = None,
    flags: int = 0,
    size: int | None = None,
    data: bytes = b"x",
    crc: int | None = None,
    hidden: bytes = b"",
) -> bytes:
    """A zip archive of one stored entry, written by hand so that it may lie."""
    import zlib

    said = len(data) if size is None else size
    sum_ = zlib.crc32(data) if crc is None else crc
    own = name if local is None else local
    head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, 0, 0, 33, sum_, len(data), said, len(own), 0) + own
    central = (
        struct.pack("<4s6H3L5H2L", b"PK\1\2", 788, 20, flags, 0, 0, 33, sum_, len(data), said, len(name), 0, 0, 0, 0, 0, 0)
        + name
    )
    begin = len(head) + len(data) + len(hidden)
    return head + data + hidden + central + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), begin, 0)


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """Where archives are unpacked; `outside` beside it must stay as it is."""
    (tmp_path / "staging").mkdir()
    (tmp_path / "outside").write_text("mine")
    return tmp_path / "staging"


@pytest.fixture
def refused(tmp_path: Path, staging: Path) -> Refused:
    """Give a function that unpacks bytes and returns the refusal, having seen that nothing is left or was touched."""

    def run(data: bytes, name: str = "package", limits: Limits = _USUAL) -> ArchiveRefused:
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
