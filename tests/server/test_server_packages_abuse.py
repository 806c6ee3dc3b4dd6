"""The packages of the catalogue of attacks, through every endpoint that takes one: refused by its code, and nothing is left."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import random
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import HIDDEN, OUTSIDE, SKILL, WINDOWS, member, overlapping, raw_zip, tar_of, zip_of
from starlette.testclient import TestClient

from skillyard.packages import sniff

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"
MIB = 1024 * 1024
GOOD = ("tidy/SKILL.md", SKILL)
LINKED, PIPE = stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644


def _special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def _kind(kind: bytes) -> bytes:
    """A tar archive whose one entry is of a kind of its own."""
    data = bytearray(tar_of((member("SKILL.md"), b""), compressed=False))
    data[156:157] = kind
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


def _lying() -> bytes:
    """A zip archive that declares ten bytes and holds 64 MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(64 * MIB)) + packer.flush()
    data = bytearray(raw_zip(b"big", data=packed, size=10))
    for begin, method in ((0, 8), (data.index(b"PK\1\2"), 10)):
        data[begin + method : begin + method + 2] = b"\x08\0"
    return bytes(data)


def _long_chain() -> bytes:
    step, chain, path = "d" * 247, [], ""
    for letter in "abcdefghijklmnop":
        chain += [(member(f"{path}{step}", tarfile.DIRTYPE), b""), (member(f"{path}{letter}", tarfile.SYMTYPE, link=step), b"")]
        path += f"{letter}/"
    return tar_of(*chain)


def _liar_about_entries() -> bytes:
    data = zip_of(GOOD, ("tidy/b", b"2"))
    end = data.rindex(b"PK\5\6")
    return data[: end + 8] + struct.pack("<2H", 1, 1) + data[end + 12 :]


def _named(*names: str) -> bytes:
    return zip_of(GOOD, *((f"tidy/{name}", b"") for name in names))


COLLIDING = [
    ("skill.md",), ("\u00c9", "E\u0301"), ("\u00df", "ss"), ("\u212a", "k"), ("a", "a/b"), ("a/b", "a"), ("A/x", "a/y"),
]  # fmt: skip
UNSAFE = (*OUTSIDE, *WINDOWS, *HIDDEN)
SKILL_TAR = tar_of((member("tidy/SKILL.md"), SKILL), compressed=False)


def attacks() -> dict[str, dict[bytes, str]]:
    """The packages of each case of the catalogue, and the code that refuses them; made by the process that needs them."""
    return {
        "F1 F12 F13": {raw_zip(name.encode("utf-8", "surrogateescape")): "unsafe_path" for name in UNSAFE}
        | {tar_of((member(name), b"x")): "unsafe_path" for name in UNSAFE}
        | {raw_zip(raw): "unsafe_path" for raw in ("é".encode("cp437"), b"\xff\xfe", b"a\xc0\xafb", b"\xed\xa0\x80")},
        "F2": {
            raw_zip(b"SKILL.md\0.txt"): "malformed_archive", raw_zip(b"SKILL.md", local=b"EVIL2.md"): "malformed_archive",
            raw_zip(b"SKILL.md", flags=1): "malformed_archive", overlapping(): "malformed_archive",
            raw_zip(b"a", hidden=b"hidden"): "malformed_archive",
        },
        "F3": {zip_of(GOOD, (_special("tidy/passwd", LINKED), b"/etc/passwd")): "link_not_allowed"},
        "F4": {
            tar_of((member("tidy/SKILL.md"), SKILL), (member("tidy/x", kind, link=target), b"")): "link_not_allowed"
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)
            for target in ("/etc/passwd", "../outside", "SKILL.md")
        }
        | {
            tar_of(
                (member("d", tarfile.DIRTYPE), b""), (member("d", tarfile.SYMTYPE, link=".."), b""), (member("d/x"), b"x")
            ): "link_not_allowed"
        },
        "F5": {_long_chain(): "link_not_allowed"},
        "F6": {_kind(kind): "special_not_allowed" for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"S")}
        | {
            zip_of((_special("SKILL.md", PIPE), b"")): "special_not_allowed",
            tar_of((member("fine", pax={"path": "../x"}), b"x")): "unsafe_path",
            tar_of((member("fine", pax={"GNU.sparse.major": "1"}), b"x")): "special_not_allowed",
        },
        "F8": {zip_of(GOOD, ("tidy/zeros", bytes(8 * MIB))): "archive_too_large", _lying(): "archive_too_large"}
        | {zip_of(GOOD, ("tidy/large", random.Random(1).randbytes(20 * MIB + 1))): "archive_too_large"},
        "F9": {
            tar_of((member("zeros"), bytes(8 * MIB))): "archive_too_large",
            gzip.compress(b"") * 100 + gzip.compress(SKILL_TAR): "archive_too_large",
            bz2.compress(SKILL_TAR): "malformed_archive", lzma.compress(SKILL_TAR): "malformed_archive",
        },
        "F10": {
            _named(*map(str, range(2001))): "too_many_files", _liar_about_entries(): "malformed_archive",
            tar_of(*((member(f"{number}/", tarfile.DIRTYPE), b"") for number in range(2001))): "too_many_files",
            _named("d/" * 5000 + "x"): "path_too_long",
        },
        "F11 F14": {_named(*names): "path_collision" for names in COLLIDING}
        | {tar_of((member("tidy/SKILL.md"), SKILL), *2 * ((member("tidy/a"), b""),)): "path_collision"},
        "F15": {
            zip_of(GOOD)[:-30]: "malformed_archive", b"%PDF-1.7\n" + zip_of(GOOD): "malformed_archive",
            zip_of(GOOD) + b"more": "malformed_archive", tar_of((member("SKILL.md"), SKILL))[:-10]: "malformed_archive",
            b"\x1f\x8b\x08" + bytes(40): "malformed_archive", b"hello": "malformed_archive", b"": "malformed_archive",
        },
        "F16": {
            zip_of(("tidy/README.md", b"")): "no_skill_inside", zip_of(("tidy/SKILL.md/x", b"")): "no_skill_inside",
            zip_of(("tidy/SKILL.md/", b""), ("tidy/a", b"")): "no_skill_inside",
        },
    }  # fmt: skip


STATUS = {"archive_too_large": 413, "too_many_files": 413}
"""Every other of these codes is a 422."""

ENDPOINTS = {
    "upload-create": (f"{API}/upload-create", "file"),
    "upload-install": (f"{API}/tidy/upload-install", "file"),
    "anthropic": ("/anthropic/v1/skills", "files"),
    "anthropic, a version": ("/anthropic/v1/skills/skill_tidy/versions", "files"),
    "openai": ("/openai/v1/skills", "files"),
    "openai, a version": ("/openai/v1/skills/skill_tidy/versions", "files"),
}


def _lying_around(home: Path) -> dict[str, bytes]:
    """Every file below the home, but for the records and what is known of the catalog."""
    kept = (str(home / "data/skillyard.db"), str(home / "data/cache/catalog"), str(home / "data/cache/search"))
    files = (path for path in home.rglob("*") if path.is_file() and not str(path).startswith(kept))
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


@pytest.fixture
def untouched(client: TestClient, home: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One skill serves; after the test everything is byte for byte as it was, and no folder more."""
    waiting = home / "waiting"
    waiting.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(waiting))
    assert client.post(ENDPOINTS["upload-create"][0], files={"file": ("tidy.zip", pack())}).status_code == 201
    client.post(f"/api/v1/skills/-/uploads/{'0' * 32}", content=b"x" * (20 * MIB + 1))  # makes the folders of these
    before, folders = _lying_around(home), sorted(path for path in home.rglob("*") if path.is_dir())
    yield
    assert _lying_around(home) == before
    assert sorted(path for path in home.rglob("*") if path.is_dir()) == folders
    assert [skill["skillId"] for skill in client.get(API).json()["data"]] == ["tidy"]
    assert len(client.get(f"{API}/tidy/versions").json()["data"]) == 1


@pytest.fixture(scope="module")
def packages() -> dict[str, dict[bytes, str]]:
    """The packages that attack, made once."""
    return attacks()


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("endpoint", "every"),
    [("upload-create", True), *((name, False) for name in ENDPOINTS if name != "upload-create")]
    + [pytest.param(name, True, marks=pytest.mark.long) for name in ENDPOINTS if name != "upload-create"],
)
@pytest.mark.abuse("F1", "F2", "F3", "F4", "F5", "F6", "F8", "F9", "F10", "F11", "F12", "F13", "F14", "F15", "F16")
def test_a_package_that_attacks_is_refused_at_every_endpoint_and_nothing_is_left(
    client: TestClient, packages: dict[str, dict[bytes, str]], endpoint: str, every: bool
) -> None:
    """One endpoint is sent every package, the others the smallest of each case and code: one reader reads for all of them."""
    path, field = ENDPOINTS[endpoint]
    sent, wrong = 0, []
    for cases, known in packages.items():
        one_of_each = {code: data for data, code in sorted(known.items(), key=lambda one: -len(one[0]))}
        for data, code in known.items() if every else [(data, code) for code, data in one_of_each.items()]:
            answer = client.post(path, files={field: ("tidy.zip", data)})
            reported = answer.json()
            if field == "files" and sniff(data[:512]) is None:  # no archive is taken for a single file, which is no skill
                code = "no_skill_inside"
            found = reported["error"].get("code", code)  # Anthropic's errors have none
            if (found, answer.status_code) != (code, STATUS.get(code, 422)) or not reported["error"]["message"]:
                wrong.append((cases, code, answer.status_code, answer.text))
            sent += 1
    assert wrong == []
    assert sent > (100 if every else 15)


NAMES: dict[str, str] = {
    **dict.fromkeys(UNSAFE, "unsafe path"),
    "d/" * 16 + "x": "path too long", "é" * 128: "path too long", "a" * 300: "path too long", "skill.md": "path collision",
}  # fmt: skip


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("form", ["one by one", "in one form"])
@pytest.mark.abuse("F1", "F10", "F11", "F12", "F13")
def test_a_file_whose_name_attacks_is_refused_by_clawhub_s_endpoints_and_nothing_is_left(client: TestClient, form: str) -> None:
    for name, said in NAMES.items():
        if form == "in one form" and set(name) & set("\\\n"):
            continue  # no form carries these: readers of forms take them apart
        order: dict[str, Any] = {"slug": "sly", "version": "1.0.0"}
        files = {"SKILL.md": SKILL.replace(b"tidy", b"sly"), name: b"x"}
        if form == "one by one":
            order["files"] = [_sent(client, path, data) for path, data in files.items()]
            answer = client.post("/api/v1/skills", json=order)
        else:
            parts = [("files", (path, data)) for path, data in files.items()]
            answer = client.post("/api/v1/skills", data={"payload": json.dumps(order)}, files=parts)
        assert (answer.status_code, answer.text.partition(":")[0]) == (422, said), (ascii(name), answer.text)


def _sent(client: TestClient, path: str, data: bytes) -> dict[str, Any]:
    reported = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    place = client.post("/api/v1/skills/-/upload-url", json=reported).json()
    return {**reported, "storageId": client.post(place["uploadUrl"], content=data).json()["storageId"]}


@pytest.mark.parametrize(("endpoint", "status"), [("upload-create", 201), ("anthropic", 200), ("openai", 200)])
@pytest.mark.abuse("F7", "F20")
def test_set_bits_are_dropped_and_hidden_files_only_reported_at_every_endpoint(
    client: TestClient, home: Path, endpoint: str, status: int
) -> None:
    wild = member("tidy/run.sh", mode=0o6777)
    wild.uid = wild.gid = 0
    hooks = (".claude/settings.json", ".git/hooks/post-checkout", ".mcp.json")
    data = tar_of(
        (member("tidy/SKILL.md"), SKILL), (wild, b"x"), (member("tidy/note", mode=0o666), b"x"),
        *((member(f"tidy/{name}", mode=0o777), b"{}") for name in hooks),
    )  # fmt: skip
    (seen,) = client.post(f"{API}/inspect", files={"file": ("tidy.tgz", data)}).json()["data"]
    assert set(hooks) <= set(seen["powers"]["hidden"])
    path, field = ENDPOINTS[endpoint]
    assert client.post(path, files={field: ("tidy.tgz", data)}).status_code == status
    tree = home / "data/skills/tidy/current"
    assert {stat.S_IMODE((tree / name).stat().st_mode) & 0o7022 for name in ("run.sh", "note", *hooks, ".")} == {0}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c touch% {marker}", "--upload-pack=touch {marker}", "-oProxyCommand=touch {marker}", "file://{marker}",
        "git+ext::sh -c touch% {marker}", "ssh://-oProxyCommand=touch%20{marker}/x", "https://-oProxyCommand=x/y.git",
        "git@example.org:me/skills.git", "git+file://{marker}",
    ],
)  # fmt: skip
@pytest.mark.abuse("F17")
def test_no_address_of_a_request_makes_git_run_anything(client: TestClient, home: Path, tmp_path: Path, address: str) -> None:
    marker = tmp_path / "ran"
    answer = client.post(f"{API}/install/address", json={"address": address.format(marker=marker)})
    assert (answer.status_code, answer.json()["code"]) in ((400, "invalid_source"), (403, "network_refused")), answer.text
    assert not marker.exists()


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("endpoint", ["upload-create", "upload-install", "anthropic, a version", "openai, a version"])
@pytest.mark.abuse("F19")
def test_more_power_needs_consent_at_every_endpoint(client: TestClient, pack: Pack, endpoint: str) -> None:
    header = "security:\n  network: allowlist\n  network_allowlist: [evil.example]\n"
    path, field = ENDPOINTS[endpoint]
    answer = client.post(path, files={field: ("tidy.zip", pack(header=header, files={"scripts/a.py": "1\n"}))})
    assert answer.status_code == 403, answer.text
    assert "evil.example" in answer.text


@pytest.mark.parametrize("endpoint", ["upload-create", "anthropic", "openai"])
@pytest.mark.parametrize("place", ["skills/tidy", "skills/.work", "skills/.locks"])
@pytest.mark.abuse("F21")
def test_a_planted_link_is_not_written_through_at_any_endpoint(
    client: TestClient, home: Path, endpoint: str, place: str
) -> None:
    elsewhere, planted = home / "elsewhere", home / "data" / place
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    planted.parent.mkdir(parents=True, exist_ok=True)
    if planted.exists():
        planted.rename(home / "before")
    planted.symlink_to(elsewhere)
    path, field = ENDPOINTS[endpoint]
    safe = TestClient(client.app, base_url=str(client.base_url), raise_server_exceptions=False)
    answer = safe.post(path, files={field: ("tidy.zip", zip_of(GOOD))})
    assert answer.status_code >= 400
    assert [path.name for path in elsewhere.iterdir()] == ["precious"]
    assert (elsewhere / "precious").read_text() == "mine"
