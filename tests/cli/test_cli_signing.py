"""Keys, signatures and signers at the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def tidy(tmp_path: Path, make_skill: Call) -> Path:
    folder: Path = make_skill(tmp_path / "mine", "tidy")
    return folder


def test_a_key_is_made_once_and_listed(call: Call, home: Path) -> None:
    assert call("key", "--json").data == {"keys": []}
    made = call("key", "new", "--json").data
    assert made["public"].startswith("ed25519:")
    assert Path(made["path"]) == home / "skillyard/keys/default.pem"
    assert call("key", "--json").data["keys"] == [{"name": "default", "public": made["public"], "problem": None}]
    assert made["public"] in call("key").out
    again = call("key", "new", "--json")
    assert (again.code, again.data["error"]["code"]) == (1, "invalid_input")
    assert call("key", "new", "../x/y z", "--json").code in (0, 1, 2)
    assert call("key", "new", "a b").code == 2


def test_a_skill_is_signed_verified_installed_and_its_signer_kept(call: Call, tidy: Path) -> None:
    public = call("key", "new", "--json").data["public"]
    assert call("verify", tidy, "--json").data["signers"] == [None]
    signed = call("sign", tidy, "--json").data
    assert (signed["key"], signed["version"]) == (public, 1)
    assert f"tidy is signed by {public}" in call("verify", tidy).out
    assert call("verify", tidy, "--signer", public).code == 0
    assert call("verify", tidy, "--signer", "ed25519:" + "A" * 43 + "=").code == 1
    assert f"signed by {public}" in call("install", tidy).out
    (tidy / "SKILL.md").write_text((tidy / "SKILL.md").read_text() + "More.\n")
    assert call("install", tidy, "--json").data["error"]["code"] == "signature_invalid"
    assert call("verify", tidy, "--json").data["error"]["code"] == "signature_invalid"
    call("key", "new", "other")
    call("sign", tidy, "--key", "other")
    refused = call("update", "tidy", "--json")
    assert (refused.code, refused.data["error"]["code"]) == (1, "signer_changed")
    assert call("update", "tidy", "--accept-signer").code == 0


def test_signing_without_a_key_or_a_skill_says_what_to_do(call: Call, tidy: Path, tmp_path: Path) -> None:
    assert "skillyard key new" in call("sign", tidy).err
    assert call("sign", tmp_path, "--json").data["error"]["code"] == "no_skill_inside"


def test_a_signer_that_is_no_key_is_wrong_usage(call: Call, tidy: Path) -> None:
    for text in ("abc", "ed25519:abc", "ed25519:" + "A" * 44):
        answer = call("verify", tidy, "--signer", text)
        assert (answer.code, answer.out) == (2, "")
        assert "44 characters of base64" in answer.err


def test_a_model_signature_is_written_reported_and_asked_for(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up. Use in a test.\n---\nDo it.\n")
    made = call("key", "new", "--format", "oms", "--json").data
    assert [key["public"] for key in call("key", "--json").data["keys"]] == [made["public"]]
    signed = call("sign", folder, "--format", "oms")
    assert (signed.code, made["public"] in signed.out) == (0, True)
    assert call("verify", folder, "--signer", made["public_path"]).code == 0
    other = call("key", "new", "other", "--format", "oms", "--json").data
    assert call("verify", folder, "--signer", other["public_path"]).code == 1

    settings = Path(os.environ["HOME"], ".config/skillyard/skillyard.toml")
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[packages.signers]\n"*" = ["{other["public_path"]}"]\n')
    refused = call("install", folder, "--json")
    assert (refused.code, refused.data["error"]["code"]) == (1, "signer_refused")
    settings.write_text(f'[packages.signers]\n"*" = ["{made["public_path"]}"]\n')
    assert call("install", folder, "--json").data["results"][0]["signer"] == made["public"]
    (folder / "more.txt").write_text("x")
    changed = call("install", folder, "--json")
    assert (changed.code, changed.data["error"]["code"]) == (1, "signature_invalid")
    assert call("sign", folder, "--certificate", "x.crt").code == 2
