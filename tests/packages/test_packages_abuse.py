"""Archives that attack whoever unpacks them: each is refused whole, by the rule it breaks, and nothing of it stays."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from archives import HIDDEN, OUTSIDE, SKILL, WINDOWS, member, overlapping, raw_zip, tar_of, zip_of

from skillyard.errors import ArchiveRefused
from skillyard.packages import PackageLimits, extract

MIB = 1024 * 1024


def _as_zip(name: str) -> bytes:
    return raw_zip(name.encode("utf-8", "surrogateescape"))


def _as_tar(name: str) -> bytes:
    return tar_of((member(name), b"x"))


@pytest.mark.parametrize("name", [*OUTSIDE, *WINDOWS, *HIDDEN], ids=ascii)
@pytest.mark.parametrize("form", [_as_zip, _as_tar])
@pytest.mark.row("D-9", "D-3")
@pytest.mark.abuse("F1", "F12", "F13")
def test_a_name_that_is_unsafe_anywhere_is_refused_everywhere(refused, form, name: str) -> None:
    assert refused(form(name)).code == "unsafe_path"


@pytest.mark.parametrize("raw", ["é".encode("cp437"), b"\xff\xfe", b"a\xc0\xafb", b"\xed\xa0\x80"], ids=ascii)
@pytest.mark.abuse("F13")
def test_a_name_that_is_not_utf_8_is_refused(refused, raw: bytes) -> None:
    assert refused(raw_zip(raw)).code == "unsafe_path"


@pytest.mark.parametrize(
    "data",
    [
        raw_zip(b"SKILL.md\0.txt"), raw_zip(b"SKILL.md", local=b"EVIL2.md"), raw_zip(b"SKILL.md", local=b"S.md"),
        raw_zip(b"SKILL.md", flags=1), raw_zip(b"SKILL.md", flags=0x41), raw_zip(b"SKILL.md", crc=7),
        raw_zip(b"SKILL.md", size=10), b"%PDF-1.7\n" + zip_of(("SKILL.md", SKILL)), zip_of(("SKILL.md", SKILL)) + b"more",
        zip_of(("SKILL.md", SKILL))[:-30], zip_of(("SKILL.md", SKILL))[:40], b"", b"hello", b"\x1f\x8b\x08" + b"\0" * 40,
        tar_of((member("SKILL.md"), SKILL))[:-10], tar_of((member("SKILL.md"), SKILL), compressed=False)[:700],
        bz2.compress(SKILL * 100), lzma.compress(SKILL * 100), b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07",
        tar_of((member("SKILL.md"), SKILL), compressed=False) + b"x" * 512,
    ],
    ids=[
        "nul", "other name inside", "shorter name inside", "encrypted", "strongly encrypted", "wrong checksum", "wrong size",
        "polyglot", "something after", "cut end", "cut", "empty", "text", "garbage gzip", "cut gzip", "cut tar", "bz2", "xz",
        "7z", "rar", "goes on after the end",
    ],
)  # fmt: skip
@pytest.mark.abuse("F2", "F15")
def test_an_archive_that_is_damaged_or_two_things_at_once_is_refused(refused, data: bytes) -> None:
    assert refused(data, "package.zip").code == "malformed_archive"


@pytest.mark.abuse("F2", "F8")
def test_entries_that_share_content_are_refused(refused) -> None:
    assert refused(overlapping()).code == "malformed_archive"


@pytest.mark.abuse("F2")
def test_content_that_is_not_listed_is_refused(refused) -> None:
    error = refused(raw_zip(b"a", hidden=b"hidden"))
    assert (error.code, "does not list" in error.message) == ("malformed_archive", True)


@pytest.mark.abuse("F10")
def test_an_archive_that_lies_about_the_number_of_entries_is_refused(refused) -> None:
    data = zip_of(("a", b"1"), ("b", b"2"))
    end = data.rindex(b"PK\5\6")
    lie = data[: end + 8] + struct.pack("<2H", 1, 1) + data[end + 12 :]
    assert refused(lie).code == "malformed_archive"


@pytest.mark.abuse("F3")
def test_a_link_in_a_zip_is_refused(refused) -> None:
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    assert refused(zip_of(("SKILL.md", SKILL), (info, b"/etc/passwd"))).code == "link_not_allowed"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "SKILL.md", "x/" * 300])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.row("D-9")
@pytest.mark.abuse("F4")
def test_a_link_in_a_tar_is_refused(refused, kind: bytes, target: str, form: int) -> None:
    attack = (member("scripts", kind, link=target), b""), (member("scripts/x.sh"), b"through the link")
    assert refused(tar_of((member("SKILL.md"), SKILL), *attack, form=form)).code == "link_not_allowed"


@pytest.mark.abuse("F4")
def test_a_folder_that_becomes_a_link_is_refused(refused) -> None:
    data = tar_of((member("d", tarfile.DIRTYPE), b""), (member("d", tarfile.SYMTYPE, link=".."), b""), (member("d/x"), b"x"))
    assert refused(data).code == "link_not_allowed"


@pytest.mark.abuse("F5")
def test_a_chain_of_links_too_long_to_resolve_is_refused(refused) -> None:
    step, chain, path = "d" * 247, [], ""
    for letter in "abcdefghijklmnop":
        chain += [(member(f"{path}{step}", tarfile.DIRTYPE), b""), (member(f"{path}{letter}", tarfile.SYMTYPE, link=step), b"")]
        path += f"{letter}/"
    assert refused(tar_of(*chain)).code in ("link_not_allowed", "path_too_long")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE + b"", b"S", b"V", b"M"])
@pytest.mark.abuse("F6")
def test_only_files_and_folders_are_unpacked(refused, staging: Path, tmp_path: Path, kind: bytes) -> None:
    data = bytearray(tar_of((member("SKILL.md"), b""), compressed=False))
    data[156:157] = kind
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    if kind == tarfile.CONTTYPE:  # a file by another letter
        (tmp_path / "a.tar").write_bytes(data)
        assert extract(tmp_path / "a.tar", staging).files == ("SKILL.md",)
    else:
        assert refused(bytes(data)).code == "special_not_allowed"


@pytest.mark.abuse("F6")
def test_a_pipe_in_a_zip_is_refused(refused) -> None:
    info = zipfile.ZipInfo("SKILL.md")
    info.create_system, info.external_attr = 3, (stat.S_IFIFO | 0o644) << 16
    assert refused(zip_of((info, b""))).code == "special_not_allowed"


@pytest.mark.abuse("F6")
def test_the_name_in_an_extended_header_is_the_one_that_counts(refused) -> None:
    assert refused(tar_of((member("fine", pax={"path": "../x"}), b"x"))).code == "unsafe_path"
    assert refused(tar_of((member("fine", pax={"GNU.sparse.major": "1"}), b"x"))).code == "special_not_allowed"


@pytest.mark.parametrize("key", ["path", "size", "linkpath"])
@pytest.mark.abuse("F6")
def test_a_header_for_every_file_may_not_steer_names(refused, key: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={key: "1"}) as archive:
        archive.addfile(member("fine"), io.BytesIO())
    assert refused(buffer.getvalue()).code == "malformed_archive"


@pytest.mark.abuse("F7")
def test_modes_owners_and_set_bits_are_dropped(tmp_path: Path, staging: Path) -> None:
    wild = member("run.sh", mode=0o6777)
    wild.uid = wild.gid = 0
    (tmp_path / "a.tgz").write_bytes(
        tar_of((wild, b"x"), (member("note", mode=0o666), b"x"), (member("d", tarfile.DIRTYPE, mode=0o1777), b""))
    )
    tree = extract(tmp_path / "a.tgz", staging).tree
    modes = {name: stat.S_IMODE((tree / name).stat().st_mode) for name in ("run.sh", "note", "d", ".")}
    assert modes == {"run.sh": 0o755, "note": 0o644, "d": 0o755, ".": 0o700}


@pytest.mark.parametrize(
    "form", [lambda data: zip_of(("big", data)), lambda data: tar_of((member("big"), data))], ids=["zip", "tar.gz"]
)
@pytest.mark.row("D-9")
@pytest.mark.abuse("F8", "F9")
def test_a_bomb_is_refused(refused, form) -> None:
    assert refused(form(bytes(8 * MIB))).code == "archive_too_large"
    assert refused(form(os.urandom(1000)), limits=PackageLimits(file=999)).code == "archive_too_large"
    assert refused(form(os.urandom(1000)), limits=PackageLimits(total=999)).code == "archive_too_large"
    assert refused(form(os.urandom(1000)), limits=PackageLimits(archive=999)).code == "archive_too_large"


@pytest.mark.abuse("F8")
def test_a_file_that_holds_more_than_it_declares_is_refused(refused) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(64 * MIB)) + packer.flush()
    data = bytearray(raw_zip(b"big", data=packed, size=10))
    for begin, method in ((0, 8), (data.index(b"PK\1\2"), 10)):
        data[begin + method : begin + method + 2] = b"\x08\0"
    assert refused(bytes(data)).code == "archive_too_large"


@pytest.mark.abuse("F9")
def test_many_gzip_streams_in_a_row_are_refused_and_a_few_are_read(refused, tmp_path: Path, staging: Path) -> None:
    plain = tar_of((member("SKILL.md"), SKILL), compressed=False)
    assert refused(gzip.compress(b"") * 100 + gzip.compress(plain)).code == "archive_too_large"
    (tmp_path / "few.tgz").write_bytes(gzip.compress(plain[:600]) + gzip.compress(plain[600:]))
    assert extract(tmp_path / "few.tgz", staging).files == ("SKILL.md",)


@pytest.mark.abuse("F8")
def test_an_archive_in_an_archive_stays_a_file(tmp_path: Path, staging: Path) -> None:
    inner = zip_of(("../x", b"x"))
    (tmp_path / "a.zip").write_bytes(zip_of(("SKILL.md", SKILL), ("inner.zip", inner)))
    tree = extract(tmp_path / "a.zip", staging).tree
    assert sorted(os.listdir(tree)) == ["SKILL.md", "inner.zip"]


@pytest.mark.abuse("F10")
def test_too_many_entries_are_refused_by_what_the_directory_says(refused) -> None:
    assert refused(zip_of(*((f"{number}", b"") for number in range(2001)))).code == "too_many_files"
    assert refused(tar_of(*((member(f"{number}/", tarfile.DIRTYPE), b"") for number in range(2001)))).code == "too_many_files"
    assert refused(tar_of(*((member(f"{number}/{number}"), b"") for number in range(1100)))).code == "too_many_files"


@pytest.mark.abuse("F10")
def test_too_deep_or_too_long_a_path_is_refused(refused) -> None:
    assert refused(_as_zip("d/" * 5000 + "x")).code == "path_too_long"
    assert refused(_as_zip("d/" * 16 + "x")).code == "path_too_long"
    assert refused(_as_tar("é" * 128)).code == "path_too_long"
    assert refused(_as_tar("/".join(["d" * 200] * 6))).code == "path_too_long"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SKILL.md", "skill.md"), ("\u00c9", "E\u0301"), ("\u00df", "ss"), ("\u212a", "k"), ("a", "a"), ("a", "a/b"),
        ("a/b", "a"), ("A/x", "a/y"), ("\ufb01le", "file"), ("d/", "d/"),
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("archive", ["zip", "tar.gz"])
@pytest.mark.abuse("F11", "F14")
def test_two_names_for_one_place_are_refused(refused, archive: str, first: str, second: str) -> None:
    names = (first, second)
    if archive == "tar.gz":
        entries = ((member(name, tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE), b"") for name in names)
        assert refused(tar_of(*entries)).code == "path_collision"
    elif first != second:
        assert refused(zip_of(*((name, b"") for name in names))).code == "path_collision"


@pytest.mark.abuse("F20")
def test_hidden_files_are_kept_reported_and_do_nothing(tmp_path: Path, staging: Path) -> None:
    names = (".claude/settings.json", ".git/hooks/post-checkout", ".mcp.json", "SKILL.md", "a/.env")
    (tmp_path / "a.zip").write_bytes(zip_of(*((name, b"{}") for name in names)))
    assert extract(tmp_path / "a.zip", staging).flagged == (*names[:3], names[4])


@pytest.mark.abuse("F21")
def test_a_staging_folder_that_is_a_link_is_refused(tmp_path: Path, staging: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of(("SKILL.md", SKILL)))
    (tmp_path / "link").symlink_to(staging)
    with pytest.raises(OSError, match="link"):
        extract(tmp_path / "a.zip", tmp_path / "link")
    assert os.listdir(staging) == []


def test_the_refusal_names_the_entry(refused) -> None:
    error = refused(zip_of(("SKILL.md", SKILL), ("../x", b"x")))
    assert isinstance(error, ArchiveRefused)
    assert error.details["entry"] == "../x"
    assert "'../x'" in error.message
