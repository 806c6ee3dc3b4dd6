"""Whoever signed the first version of a skill signs the next ones; a signature that does not hold installs nothing."""

from __future__ import annotations

import base64
import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import SignatureInvalid, SignerChanged
from skillyard.packages import SIGNATURE_FILE, Signature, SigningKey, pack, sign_tree
from skillyard.registry import Registry


def test_the_first_signer_is_written_down(any_registry: Registry, write: Any) -> None:
    key, folder = SigningKey.new(), write()
    sign_tree(folder, key)
    (result,) = any_registry.install(str(folder)).results
    assert result.signer == key.public
    assert any_registry.installed.current("tidy").signer == key.public


def test_the_same_signer_may_publish_again(registry: Registry, write: Any) -> None:
    key, folder = SigningKey.new(), write()
    for body in ("one", "two"):
        write(body=body)
        sign_tree(folder, key)
        registry.install(str(folder))
    assert len(registry.installed.versions("tidy")) == 2


@pytest.mark.parametrize("next_key", [None, SigningKey.new()], ids=["nobody", "somebody else"])
def test_another_signer_is_refused_until_somebody_accepts_it(
    registry: Registry, write: Any, next_key: SigningKey | None
) -> None:
    first, folder = SigningKey.new(), write()
    sign_tree(folder, first)
    before = registry.install(str(folder)).results[0].version
    write(body="two")
    (folder / SIGNATURE_FILE).unlink()
    if next_key:
        sign_tree(folder, next_key)
    for call in (lambda: registry.install(str(folder)), lambda: registry.update("tidy")):
        with pytest.raises(SignerChanged) as refused:
            call()
        assert refused.value.details["before"] == first.public
        assert "--accept-signer" in refused.value.hint
        assert registry.installed.current("tidy").version == before
    registry.install(str(folder), accept_signer=True)
    assert registry.installed.current("tidy").signer == (next_key.public if next_key else None)


def test_uninstalling_does_not_make_the_signer_forgotten(registry: Registry, write: Any) -> None:
    folder = write()
    sign_tree(folder, SigningKey.new())
    registry.install(str(folder))
    registry.uninstall("tidy", prune=True)
    write(body="two")
    sign_tree(folder, SigningKey.new())
    with pytest.raises(SignerChanged):
        registry.install(str(folder))


def test_an_unsigned_skill_may_begin_to_be_signed(registry: Registry, write: Any) -> None:
    folder = write()
    registry.install(str(folder))
    write(body="two")
    sign_tree(folder, SigningKey.new())
    assert registry.install(str(folder)).results[0].status == "updated"


def test_a_signature_that_does_not_hold_installs_nothing(registry: Registry, write: Any, tmp_path: Path) -> None:
    folder = write()
    sign_tree(folder, SigningKey.new())
    write(body="changed on the way")
    package = pack(folder, tmp_path / "tidy.zip")
    for source in (folder, package.path):
        with pytest.raises(SignatureInvalid):
            registry.install(str(source))
    assert registry.installed.skills() == ()
    assert registry.installed.history()[0].error_code == "signature_invalid"


def test_content_that_was_signed_before_what_is_installed_is_no_update(
    registry: Registry, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, folder = SigningKey.new(), write(body="old, with a hole")
    sign_tree(folder, key)
    old = shutil.copytree(folder, tmp_path / "old" / "tidy")
    write(body="new, fixed")
    signature = key.sign("sha256:" + "0" * 64)
    later = dataclasses.replace(signature, signed_at="2999-01-01T00:00:00Z")
    monkeypatch.setattr(SigningKey, "sign", lambda self, digest: _signed_at(self, digest, later.signed_at))
    sign_tree(folder, key)
    registry.install(str(folder))
    with pytest.raises(SignerChanged, match="before the version that is installed"):
        registry.install(str(old))
    (result,) = registry.install(str(old), accept_signer=True).results
    assert any("before the version" in warning for warning in result.warnings)


def _signed_at(key: SigningKey, digest: str, moment: str) -> Signature:
    unsigned = Signature(digest, key.public, moment, "")
    return dataclasses.replace(unsigned, signature=base64.b64encode(key._private.sign(unsigned.message())).decode())
