"""An archive has one reading: what another unpacker would call or measure differently is refused."""

from __future__ import annotations

import gzip
import struct
import tarfile
from pathlib import Path

import pytest
from archives import SKILL, extra_field, member, raw_zip, tar_of, unicode_path, zip_of

from skillyard.packages import extract

NAME = b"SKILL.md"
LOCATOR = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
SIZES = struct.pack("<2Q", 1, 1)


@pytest.mark.parametrize(
    "data",
    [
        raw_zip(NAME, extra=unicode_path("scripts/run.sh", NAME)),
        raw_zip(NAME, local_extra=unicode_path("scripts/run.sh", NAME)),
        raw_zip(NAME, extra=unicode_path("SKILL.md", b"another name")),
        raw_zip(NAME, extra=extra_field(0x7075, b"\2" + unicode_path("SKILL.md", NAME)[5:])),
        raw_zip(NAME, extra=extra_field(0x7075, b"\1")),
        raw_zip(NAME, extra=unicode_path("SKILL.md", NAME) * 2),
        raw_zip(NAME, extra=extra_field(0x5455, b"12345")[:-1]),
        raw_zip(NAME, extra=b"\1"),
        raw_zip(NAME, extra=extra_field(1, struct.pack("<2Q", 7, 1))),
        raw_zip(NAME, local_extra=extra_field(1, struct.pack("<2Q", 1, 7))),
        raw_zip(NAME, comment=LOCATOR),
        raw_zip(NAME, attributes=0x10),
    ],
    ids=[
        "another Unicode path", "another Unicode path in its own header", "a Unicode path of another name",
        "a Unicode path of an unknown version", "a cut Unicode path", "two Unicode paths", "a cut extra field",
        "half an extra field", "another size in ZIP64", "another size in the ZIP64 of its own header", "a second directory",
        "a folder for DOS",
    ],
)  # fmt: skip
@pytest.mark.abuse("F22")
def test_a_zip_that_can_be_read_in_two_ways_is_refused(refused, data: bytes) -> None:
    assert refused(data).code == "malformed_archive"


@pytest.mark.parametrize(
    "data",
    [
        raw_zip(NAME, extra=unicode_path("SKILL.md", NAME), local_extra=unicode_path("SKILL.md", NAME), data=SKILL),
        raw_zip(NAME, extra=extra_field(0x5455, b"12345"), local_extra=extra_field(0x7875, b"1"), data=SKILL),
        raw_zip(NAME, extra=extra_field(1, struct.pack("<2Q", len(SKILL), len(SKILL))), data=SKILL),
    ],
    ids=["the same Unicode path", "times and owners", "the same size in ZIP64"],
)
def test_extra_fields_that_agree_are_accepted(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    assert extract(tmp_path / "a.zip", tmp_path).files == ("SKILL.md",)


def test_a_name_outside_ascii_is_accepted_with_the_flag_of_utf_8_and_without_it(tmp_path: Path) -> None:
    """Info-ZIP and macOS write UTF-8 and do not set the flag; the standard library sets it."""
    name = "caf\u00e9.md"
    for number, data in enumerate((raw_zip(name.encode()), zip_of((name, b"x")))):
        archive = tmp_path / f"{number}.zip"
        archive.write_bytes(data)
        assert extract(archive, tmp_path).files == (name,)


def _plain(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytearray:
    return bytearray(tar_of(*entries, compressed=False, form=form))


def _changed(header: bytearray, place: int, data: bytes) -> bytes:
    """A tar archive whose first header has other bytes at `place`, with a checksum that fits."""
    header[place : place + len(data)] = data
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return gzip.compress(bytes(header), mtime=0)


def _extended(kind: bytes, data: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + b"\0" * (-len(data) % 512)


def _pax(key: str, value: str) -> bytes:
    length = len(key) + len(value) + 3
    return f"{length + len(str(length + 2))} {key}={value}\n".encode()


_ENTRY = _plain((member("SKILL.md"), SKILL))


@pytest.mark.parametrize(
    "data",
    [
        _extended(b"x", _pax("path", "a.md")) + _extended(b"L", b"b.md\0") + _ENTRY,
        _extended(b"L", b"a.md\0") + _extended(b"L", b"b.md\0") + _ENTRY,
        _extended(b"x", _pax("path", "a.md") + _pax("path", "b.md")) + _ENTRY,
        _extended(b"x", _pax("size", "0")) + _ENTRY,
        _extended(b"x", _pax("size", str(len(SKILL))) * 2) + _ENTRY,
        _changed(_plain((member("SKILL.md"), SKILL)), 124, b"0000000_62\0\0"),
        _changed(_plain((member("SKILL.md"), SKILL)), 124, b"0o62\0\0\0\0\0\0\0\0"),
        _changed(_plain((member("SKILL.md"), SKILL), form=tarfile.GNU_FORMAT), 345, b"scripts"),
        _changed(_plain((member("SKILL.md"), SKILL)), 257, b"\0\0\0\0\0\0\0\0" + b"\0" * 80 + b"scripts"),
    ],
    ids=[
        "a long name and an extended one", "two long names", "two extended names", "another size in the extended header",
        "two sizes", "a number with a line", "a number of Python's", "a prefix without its format", "a prefix before ustar",
    ],
)  # fmt: skip
@pytest.mark.abuse("F22")
def test_a_tar_that_can_be_read_in_two_ways_is_refused(refused, data: bytes) -> None:
    assert refused(bytes(data), "package.tar").code == "malformed_archive"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_with_long_names_is_accepted_in_every_format(form: int, tmp_path: Path) -> None:
    name = "references/" + "d" * 80 + "/" + "n" * 40 + ".md"
    (tmp_path / "a.tar.gz").write_bytes(tar_of((member("SKILL.md"), SKILL), (member(name), b"x"), form=form))
    assert extract(tmp_path / "a.tar.gz", tmp_path).files == ("SKILL.md", name)


def test_a_file_with_holes_under_another_name_is_refused(refused) -> None:
    hole = member("x", pax={"GNU.sparse.name": "SKILL.md", "GNU.sparse.major": "1"})
    assert refused(tar_of((hole, b"x"))).code == "special_not_allowed"
