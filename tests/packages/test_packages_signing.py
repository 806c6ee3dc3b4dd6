"""Signatures hold for exactly one content by exactly one key; anything else is told apart from not being signed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidInput, SignatureInvalid
from skillyard.packages import SIGNATURE_FILE, SigningKey, extract, find_skills, pack, read_signature, sign_tree, verify_tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A skill that nobody has signed."""
    made = tmp_path / "tidy"
    (made / "scripts").mkdir(parents=True)
    (made / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up.\n---\nDo it.\n")
    (made / "scripts/run.py").write_text("print(1)\n")
    return made


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.new()


def test_what_is_not_signed_has_no_signature(folder: Path) -> None:
    assert read_signature(folder) is None
    assert verify_tree(folder) is None


def test_a_signature_names_its_signer_and_holds(folder: Path, key: SigningKey) -> None:
    made = sign_tree(folder, key)
    found = verify_tree(folder)
    assert found == made
    assert found is not None
    assert (found.key, len(found.key)) == (key.public, 52)


def test_signing_again_replaces_the_signature(folder: Path, key: SigningKey) -> None:
    sign_tree(folder, key)
    (folder / "scripts/run.py").write_text("print(2)\n")
    with pytest.raises(SignatureInvalid, match="not what"):
        verify_tree(folder)
    other = SigningKey.new()
    sign_tree(folder, other)
    found = verify_tree(folder)
    assert found is not None
    assert found.key == other.public


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "skill"])
def test_a_signature_travels_with_every_archive(folder: Path, key: SigningKey, tmp_path: Path, suffix: str) -> None:
    sign_tree(folder, key)
    package = pack(folder, tmp_path / f"tidy.{suffix}")
    (tmp_path / "out").mkdir()
    (skill,) = find_skills(extract(package.path, tmp_path / "out").tree)
    assert verify_tree(skill.directory) is not None


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "SKILL.md").write_bytes((folder / "SKILL.md").read_bytes().replace(b"Do it", b"Do no")),
        lambda folder: (folder / "new.md").write_text("more"),
        lambda folder: (folder / ".hidden").write_text("more"),
        lambda folder: (folder / "scripts/run.py").unlink(),
        lambda folder: (folder / "scripts/run.py").rename(folder / "scripts/ran.py"),
        lambda folder: (folder / "scripts/run.py").chmod(0o755),
        lambda folder: (folder / "scripts" / SIGNATURE_FILE).write_text("{}"),
    ],
    ids=["a byte", "a file more", "a hidden file", "a file less", "a name", "a mode", "a second signature file"],
)
def test_any_change_is_seen(folder: Path, key: SigningKey, change: Change) -> None:
    sign_tree(folder, key)
    change(folder)
    with pytest.raises(SignatureInvalid) as refused:
        verify_tree(folder)
    assert refused.value.details["key"] == key.public


def test_a_signature_of_another_skill_does_not_hold(folder: Path, key: SigningKey, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "SKILL.md").write_text("---\nname: other\ndescription: Other.\n---\n")
    sign_tree(other, key)
    shutil.copy(other / SIGNATURE_FILE, folder)
    with pytest.raises(SignatureInvalid):
        verify_tree(folder)


@pytest.mark.parametrize("field", ["digest", "key", "signed_at", "signature"])
def test_no_field_of_a_signature_can_be_changed(folder: Path, key: SigningKey, field: str) -> None:
    sign_tree(folder, key)
    other = sign_tree_elsewhere(folder)
    shape = json.loads((folder / SIGNATURE_FILE).read_text())
    shape[field] = "2001-01-01T00:00:00Z" if field == "signed_at" else other[field]
    (folder / SIGNATURE_FILE).write_text(json.dumps(shape))
    with pytest.raises(SignatureInvalid):
        verify_tree(folder)


def sign_tree_elsewhere(folder: Path) -> dict[str, str]:
    """A signature of other content by another key."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    (copy / "SKILL.md").write_text("else")
    return {name: str(value) for name, value in sign_tree(copy, SigningKey.new()).to_dict().items()}


@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode), st.just(b"[" * 4000), st.just(b"x" * 5000)))
def test_rubbish_is_no_signature_and_never_a_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("rubbish")
    (folder / SIGNATURE_FILE).write_bytes(data)
    with pytest.raises(SignatureInvalid):
        verify_tree(folder)


def test_a_link_in_place_of_the_signature_is_refused(folder: Path, key: SigningKey, tmp_path: Path) -> None:
    sign_tree(folder, key)
    (folder / SIGNATURE_FILE).rename(tmp_path / "elsewhere")
    (folder / SIGNATURE_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SignatureInvalid):
        verify_tree(folder)


def test_a_signature_of_a_later_form_is_reported(folder: Path) -> None:
    (folder / SIGNATURE_FILE).write_text('{"version": 2}')
    with pytest.raises(SignatureInvalid, match="not known"):
        verify_tree(folder)


def test_a_key_is_kept_for_its_owner_alone_and_never_overwritten(key: SigningKey, tmp_path: Path) -> None:
    path = tmp_path / "keys" / "default.pem"
    key.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.read(path).public == key.public
    with pytest.raises(InvalidInput, match="already"):
        SigningKey.new().write(path)
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="read by others") as refused:
        SigningKey.read(path)
    assert refused.value.hint == f"chmod 600 {path}"


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    with pytest.raises(InvalidInput, match="cannot be read"):
        SigningKey.read(path)
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for data, why in ((b"rubbish", "not a key"), (other, "another kind")):
        path.write_bytes(data)
        os.chmod(path, 0o600)
        with pytest.raises(InvalidInput, match=why):
            SigningKey.read(path)
