"""OpenSSF Model Signing: `skill.oms.sig` is written, proven at install, and held against the signers that are pinned."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from skillyard.errors import InvalidInput, SignatureInvalid, SignatureMissing, SignerChanged, SignerRefused
from skillyard.packages import SigningKey, sign_tree
from skillyard.packages.model_signature import OMS_FILE, ModelSigningKey, PinnedKey, verify_model
from skillyard.registry import Registry
from skillyard.registry.candidate import SignerPolicy
from skillyard.registry.project_lock import ProjectLock

Write = Callable[..., Path]
DAY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def key(tmp_path: Path) -> ModelSigningKey:
    """A key in `team.pem`, its public half in `team.pub`."""
    made = ModelSigningKey.new()
    made.write(tmp_path / "team.pem")
    return made


def certificate(
    folder: Path, name: str, issuer: str = "", *, authority: bool = True, usage: bool = True
) -> EllipticCurvePrivateKey:
    """A certificate `NAME.crt` with the key `NAME.key`, issued by another or by itself."""

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    key = generate_private_key(SECP384R1())
    by = x509.load_pem_x509_certificate((folder / f"{issuer}.crt").read_bytes()).subject if issuer else named(name)
    signing: Any = key
    if issuer:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        signing = load_pem_private_key((folder / f"{issuer}.key").read_bytes(), None)
    plan = x509.CertificateBuilder(by, named(name), key.public_key(), x509.random_serial_number(), DAY, DAY + timedelta(days=9))
    plan = plan.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if usage:
        uses = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
            False,
        )
        more = {"digital_signature": not authority, "key_cert_sign": authority, "crl_sign": authority}
        plan = plan.add_extension(x509.KeyUsage(**uses, **more), critical=True)
    (folder / f"{name}.crt").write_bytes(plan.sign(signing, hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / f"{name}.key").chmod(0o600)
    return key


def pin(path: Path) -> list[PinnedKey]:
    return [PinnedKey.read(path)]


def test_a_signature_holds_for_the_files_and_the_key(key: ModelSigningKey, write: Write, tmp_path: Path) -> None:
    folder = write(files={"scripts/go.sh": "echo\n", ".gitignore": "x"})
    assert verify_model(folder) is None
    key.sign(folder)
    found = verify_model(folder, pin(tmp_path / "team.pub"))
    assert found is not None
    assert found.signer == key.signer == pin(tmp_path / "team.pub")[0].signer
    other = ModelSigningKey.new().write(tmp_path / "other.pem")
    stranger = verify_model(folder, pin(other))
    assert stranger is not None
    assert stranger.signer is None
    assert (tmp_path / "team.pem").stat().st_mode & 0o777 == 0o600
    assert ModelSigningKey.read(tmp_path / "team.pem").signer == key.signer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "SKILL.md").write_text("other"), "SKILL.md was changed"),
        (lambda folder: (folder / "scripts/go.sh").unlink(), "scripts/go.sh is missing"),
        (lambda folder: (folder / "scripts/more.sh").write_text("x"), "scripts/more.sh was added"),
    ],
)
def test_another_content_is_named(
    key: ModelSigningKey, write: Write, tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    folder = write(files={"scripts/go.sh": "echo\n"})
    key.sign(folder)
    change(folder)
    for pins in ((), pin(tmp_path / "team.pub")):
        with pytest.raises(SignatureInvalid, match=said):
            verify_model(folder, pins)


def edited(folder: Path, change: Callable[[Any, Any], object]) -> None:
    """Change the bundle and its statement, which keeps its old signature."""
    bundle = json.loads((folder / OMS_FILE).read_text())
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    change(bundle, statement)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    (folder / OMS_FILE).write_text(json.dumps(bundle))


@pytest.mark.parametrize(
    "change",
    [
        lambda bundle, _: bundle.update(mediaType="other"),
        lambda bundle, _: bundle.pop("dsseEnvelope") and bundle.update(dsseEnvelope={}),
        lambda bundle, _: bundle["dsseEnvelope"].update(payloadType="text/plain"),
        lambda bundle, _: bundle["dsseEnvelope"].update(signatures=[]),
        lambda bundle, _: bundle["dsseEnvelope"]["signatures"][0].update(sig="AAAA"),
        lambda bundle, _: bundle["dsseEnvelope"]["signatures"][0].update(sig="no base64!"),
        lambda bundle, _: bundle.update(verificationMaterial=[]),
        lambda bundle, _: bundle.update(
            verificationMaterial={"x509CertificateChain": {"certificates": [{"rawBytes": "AAAA"}]}}
        ),
        lambda bundle, _: bundle.update(verificationMaterial={"x509CertificateChain": {"certificates": [{}] * 9}}),
        lambda _, statement: statement["predicate"]["resources"][0].update(digest="00" * 32),
        lambda _, statement: statement["predicate"]["resources"].clear(),
        lambda _, statement: statement.update(_type="other"),
    ],
)
def test_a_changed_signature_is_refused(
    key: ModelSigningKey, write: Write, tmp_path: Path, change: Callable[[Any, Any], object]
) -> None:
    folder = write()
    key.sign(folder)
    edited(folder, change)
    with pytest.raises(SignatureInvalid):
        verify_model(folder, pin(tmp_path / "team.pub"))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"{}" * 3_000_000])
def test_a_file_that_is_no_signature_is_refused(write: Write, data: bytes) -> None:
    folder = write()
    (folder / OMS_FILE).write_bytes(data)
    with pytest.raises(SignatureInvalid):
        verify_model(folder)


def test_a_certificate_is_proven_by_the_one_that_is_pinned_above_it(write: Write, tmp_path: Path) -> None:
    for name, issuer in (("root", ""), ("middle", "root"), ("other", "")):
        certificate(tmp_path, name, issuer)
    certificate(tmp_path, "leaf", "middle", authority=False)
    certificate(tmp_path, "below", "leaf", authority=False)  # issued by one that may issue none
    certificate(tmp_path, "mute", "middle", authority=False, usage=False)
    folder = write()
    ModelSigningKey.read(tmp_path / "leaf.key", [tmp_path / "leaf.crt", tmp_path / "middle.crt"]).sign(folder)
    signers = {name: verify_model(folder, pin(tmp_path / f"{name}.crt")) for name in ("root", "middle", "leaf", "other")}
    assert {name: found is not None and found.signer is not None for name, found in signers.items()} == {
        "root": True, "middle": True, "leaf": True, "other": False,
    }  # fmt: skip
    assert signers["root"] is not None
    assert signers["root"].by == "CN=leaf"
    for name, above in (("below", ["leaf", "middle"]), ("mute", ["middle"])):
        chain = [tmp_path / f"{one}.crt" for one in (name, *above)]
        ModelSigningKey.read(tmp_path / f"{name}.key", chain).sign(folder)
        found = verify_model(folder, pin(tmp_path / "root.crt"))
        assert found is not None
        assert found.signer is None
    with pytest.raises(InvalidInput, match="not that of the key"):
        ModelSigningKey.read(tmp_path / "leaf.key", [tmp_path / "root.crt"])


def test_a_keyless_signature_is_read_and_proves_nobody(key: ModelSigningKey, write: Write, tmp_path: Path) -> None:
    folder = write()
    key.sign(folder)
    edited(folder, lambda bundle, _: bundle.update(verificationMaterial={"certificate": {"rawBytes": "AAAA"}}))
    edited_payload = json.loads((folder / OMS_FILE).read_text())
    assert edited_payload["verificationMaterial"] == {"certificate": {"rawBytes": "AAAA"}}
    found = verify_model(folder, pin(tmp_path / "team.pub"))
    assert found is not None
    assert (found.signer, "Sigstore" in found.by) == (None, True)


def policy(registry: Registry, folder: Path, **rules: list[str]) -> Registry:
    registry._signers = SignerPolicy({name.replace("everything", "*"): pins for name, pins in rules.items()}, folder)
    return registry


def test_at_install_the_pinned_signer_is_recorded_and_locked(
    registry: Registry, key: ModelSigningKey, write: Write, tmp_path: Path
) -> None:
    folder = write()
    key.sign(folder)
    (result,) = registry.install(str(folder)).results
    assert result.signer is None
    assert any(OMS_FILE in warning for warning in result.warnings)
    registry.uninstall("tidy")

    policy(registry, tmp_path, everything=["team.pub"])
    key.sign(write(body="More."))
    (result,) = registry.install(str(folder)).results
    assert (result.signer, [warning for warning in result.warnings if OMS_FILE in warning]) == (key.signer, [])
    project = tmp_path / "project"
    project.mkdir()
    lock = ProjectLock(project)
    lock.record((result,), registry)
    assert lock.signers() == {"tidy": key.signer}
    assert [state.state for state in lock.states(registry)] == ["ok"]


def test_who_is_not_pinned_for_a_source_is_refused(
    registry: Registry, key: ModelSigningKey, write: Write, tmp_path: Path
) -> None:
    folder = write()
    policy(registry, tmp_path, everything=["team.pub"])
    with pytest.raises(SignatureMissing):
        registry.install(str(folder))
    ModelSigningKey.new().sign(folder)
    with pytest.raises(SignerRefused):
        registry.install(str(folder))
    mine = SigningKey.new()
    (folder / OMS_FILE).unlink()
    sign_tree(folder, mine)
    with pytest.raises(SignerRefused) as refused:
        registry.install(str(folder))
    assert refused.value.details == {"pinned": ["team.pub"], "signer": mine.public}
    (inspected,) = registry.inspect(str(folder))
    assert [refusal.code for refusal in inspected.refusals] == ["signer_refused"]
    assert registry.installed.skills() == ()

    key.sign(folder)
    sign_tree(folder, mine)  # both: each covers what it must
    assert registry.install(str(folder)).results[0].signer == key.signer
    policy(registry, tmp_path, everything=[mine.public])
    with pytest.raises(SignerChanged):
        registry.install(str(folder), force=True)
    assert registry.install(str(folder), force=True, accept_signer=True).results[0].signer == mine.public


def test_the_most_exact_source_counts(registry: Registry, key: ModelSigningKey, write: Write, tmp_path: Path) -> None:
    rules = {"*": ["missing.pub"], str(tmp_path / "sources"): ["missing.pub"], str(tmp_path / "sources/tidy"): ["team.pub"]}
    registry._signers = SignerPolicy(rules, tmp_path)
    key.sign(write())
    assert registry.install(str(write())).results[0].signer == key.signer
    with pytest.raises(InvalidInput, match="missing"):
        registry.install(str(write("sweep")))
    registry._signers = SignerPolicy({"ghcr.io/acme": ["team.pub"], "/elsewhere": ["team.pub"]}, tmp_path)
    assert registry.install(str(write("sweep"))).results[0].signer is None


def test_keys_and_certificates_that_are_none_are_reported(tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no key")
    SigningKey.new().write(tmp_path / "ed25519.pem")
    for read in (PinnedKey.read, ModelSigningKey.read):
        for name in ("text.pem", "ed25519.pem", "missing.pem"):
            with pytest.raises(InvalidInput):
                read(tmp_path / name)
    ModelSigningKey.new().write(tmp_path / "open.pem")
    (tmp_path / "open.pem").chmod(0o644)
    with pytest.raises(InvalidInput, match="by others"):
        ModelSigningKey.read(tmp_path / "open.pem")


@pytest.mark.long
def test_the_program_of_openssf_verifies_ours_and_we_verify_its(key: ModelSigningKey, write: Write, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "model-signing==1.1.1", "pyOpenSSL"], check=True, timeout=900)

    def program(verb: str, kind: str, *words: str | Path) -> None:
        line = [python, "-m", "model_signing", verb, kind, folder, "--signature", folder / OMS_FILE, *words]
        done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=300, env={**os.environ})
        assert done.returncode == 0, done.stderr + done.stdout

    folder = write(files={"scripts/go.sh": "echo\n", ".gitignore": "x", "名.txt": "n"})
    key.sign(folder)
    program("verify", "key", "--public_key", tmp_path / "team.pub")
    (folder / OMS_FILE).unlink()
    program("sign", "key", "--private_key", tmp_path / "team.pem")
    assert (verify_model(folder, pin(tmp_path / "team.pub")) or sys.exit()).signer == key.signer

    certificate(tmp_path, "root")
    certificate(tmp_path, "leaf", "root", authority=False)
    ModelSigningKey.read(tmp_path / "leaf.key", [tmp_path / "leaf.crt"]).sign(folder)
    program("verify", "certificate", "--certificate_chain", tmp_path / "root.crt")
    (folder / OMS_FILE).unlink()
    chain = ("--signing_certificate", tmp_path / "leaf.crt", "--certificate_chain", tmp_path / "root.crt")
    program("sign", "certificate", "--private_key", tmp_path / "leaf.key", *chain)
    assert (verify_model(folder, pin(tmp_path / "root.crt")) or sys.exit()).signer is not None
