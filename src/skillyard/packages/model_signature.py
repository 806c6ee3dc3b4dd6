"""OpenSSF Model Signing of a skill: `skill.oms.sig`, a signed statement about every file of the folder.

The file is a Sigstore bundle: a DSSE envelope around an in-toto statement that lists each file with its SHA-256. Signatures
with elliptic-curve keys, and with certificates whose chain ends at a pinned one, are proven here and need no network. Keyless
signatures of Sigstore need its transparency log and are not proven. A signature alone proves that somebody has signed; who
that may be is pinned: a public key or a certificate.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from skillyard.errors import FileMissing, FileProblem, InvalidInput, SignatureInvalid
from skillyard.packages.digest import SIGNATURE_FILE, tree_entries, write_new_key
from skillyard.paths import read_inside
from skillyard.plain_json import read_json
from skillyard.text import single_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.x509 import Certificate


OMS_FILE: Final = "skill.oms.sig"
_LIMIT: Final = 4 * 1024 * 1024
_LARGEST_PEM: Final = 256 * 1024
_LARGEST_FILE: Final = 1024 * 1024 * 1024
_LONGEST_CHAIN: Final = 8
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://model_signing/signature/v1.0"
_MAY_BE_LEFT_OUT: Final = (OMS_FILE, SIGNATURE_FILE, ".git", ".gitattributes", ".github", ".gitignore")
_SIGNER: Final = re.compile(r"oms:[0-9a-f]{64}")
_CURVES: Final[Mapping[str, str]] = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
_HINT: Final = "get the package again from who publishes it; `skillyard sign --format oms` signs your own after an edit"


def is_model_signer(text: str) -> bool:
    """Whether a text has the form in which a pinned key or certificate is named."""
    return _SIGNER.fullmatch(text) is not None


class PinnedKey(NamedTuple):
    """A public key or a certificate whose signatures are accepted; `signer` is how it is named."""

    signer: str
    key: EllipticCurvePublicKey | None
    certificate: Certificate | None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The public key or the certificate in a PEM file.

        Raises:
            InvalidInput: it cannot be read, or is neither.
        """
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
        from cryptography.x509 import load_pem_x509_certificate

        data = _pem(path)
        try:
            if b"BEGIN CERTIFICATE" in data:
                certificate = load_pem_x509_certificate(data)
                return cls(_named(certificate.public_bytes(Encoding.DER)), None, certificate)
            key = load_pem_public_key(data)
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} is neither a public key nor a certificate: {error}", hint="name a PEM file") from None
        if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in _CURVES:
            raise InvalidInput(f"{path} is another kind of key", hint="NIST's curves P-256, P-384 and P-521 are used")
        return cls(_named(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)), key, None)


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """A signature that holds for the files; `signer` is the pinned key or certificate, None when it is by none of them.

    `by` says who made it, as far as it says so itself.
    """

    signer: str | None
    by: str


class ModelSigningKey:
    """A private key for model signatures, with the certificates that name its holder, the holder's own first."""

    def __init__(self, private: EllipticCurvePrivateKey, chain: Sequence[Certificate] = ()) -> None:
        self._private = private
        self._chain = tuple(chain)

    @classmethod
    def new(cls) -> Self:
        """A new random key on the curve P-256."""
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

        return cls(generate_private_key(SECP256R1()))

    @classmethod
    def read(cls, path: Path, certificates: Sequence[Path] = ()) -> Self:
        """The key in a PEM file, and the certificates in others.

        Raises:
            InvalidInput: a file is missing, is something else, or the key can be read by others or is not the certificate's.
        """
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificates

        data = _pem(path)
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"the key {path} can be read by others", hint=f"chmod 600 {path}")
        try:
            private = load_pem_private_key(data, password=None)
            chain = [one for file in certificates for one in load_pem_x509_certificates(_pem(file))]
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} or a certificate cannot be used: {error}", hint="name PEM files") from None
        if not isinstance(private, EllipticCurvePrivateKey) or private.curve.name not in _CURVES:
            raise InvalidInput(f"{path} is another kind of key", hint="`skillyard key new NAME --format oms` makes one")
        if chain and chain[0].public_key() != private.public_key():
            raise InvalidInput("the first certificate is not that of the key", hint="name the certificate of the key first")
        return cls(private, chain)

    @property
    def signer(self) -> str:
        """How its public key is named where it is pinned."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return _named(self._private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    @property
    def public_pem(self) -> bytes:
        """The public key, as others pin it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def write(self, path: Path) -> Path:
        """Keep the key in a new PEM file that only its owner can read, and the public half beside it; gives that file.

        Raises:
            InvalidInput: there is such a file already, or it cannot be written.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        public = path.with_suffix(".pub")
        write_new_key(path, self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        write_new_key(public, self.public_pem)
        return public

    def sign(self, directory: Path) -> str:
        """Write `skill.oms.sig` into the folder of a skill, in one step; gives the digest that the statement has of it.

        Raises:
            InvalidInput: the folder has a link.
            OSError: it cannot be read or written.
        """
        from cryptography.hazmat.primitives.serialization import Encoding

        from skillyard.files import replace_file

        digests = _digests(directory)
        root = _root_digest(list(digests.values()))
        statement = {
            "_type": _STATEMENT,
            "subject": [{"name": directory.resolve().name, "digest": {"sha256": root}}],
            "predicateType": _PREDICATE,
            "predicate": {
                "serialization": {
                    "method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": list(_MAY_BE_LEFT_OUT),
                },
                "resources": [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in digests.items()],
            },
        }  # fmt: skip
        payload = json.dumps(statement, ensure_ascii=False).encode()
        key = self._private.public_key()
        made = self._private.sign(_message(payload), _algorithm(key))
        material: dict[str, Any] = {"publicKey": {"hint": hashlib.sha256(self.public_pem).hexdigest()}}
        if self._chain:
            chain = [{"rawBytes": _text(one.public_bytes(Encoding.DER))} for one in self._chain]
            material = {"x509CertificateChain": {"certificates": chain}}
        envelope = {"payload": _text(payload), "payloadType": _PAYLOAD, "signatures": [{"sig": _text(made), "keyid": ""}]}
        bundle = {
            "mediaType": _BUNDLE, "verificationMaterial": {**material, "tlogEntries": []}, "dsseEnvelope": envelope,
        }  # fmt: skip
        replace_file(directory / OMS_FILE, json.dumps(bundle).encode() + b"\n", mode=0o644)
        return f"sha256:{root}"


def verify_model(directory: Path, pins: Sequence[PinnedKey] = ()) -> ModelSignature | None:
    """The model signature of the skill in `directory`, held against its files and `pins`; None when it has none.

    Raises:
        SignatureInvalid: it is no signature, its signer did not sign it, or the files are not the ones that were signed.
    """
    try:
        bundle = read_json(read_inside(directory, OMS_FILE, limit=_LIMIT).decode())
        envelope, material = _fields(bundle)
        payload = base64.b64decode(envelope["payload"], validate=True)
        proof = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        chain = _chain_of(material)
    except FileMissing:
        return None
    except (FileProblem, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _invalid(f"{OMS_FILE} cannot be read: {single_line(str(error))[:200]}") from None
    signer, by = _signer_of(payload, proof, material, chain, pins)
    _check_files(directory, payload)
    return ModelSignature(signer, by)


def _fields(bundle: object) -> tuple[Any, Mapping[str, Any]]:
    if not isinstance(bundle, dict) or bundle.get("mediaType") != _BUNDLE:
        raise ValueError("it is not a Sigstore bundle of version 0.3")
    envelope, material = bundle["dsseEnvelope"], bundle["verificationMaterial"]
    if not isinstance(material, dict) or envelope["payloadType"] != _PAYLOAD or len(envelope["signatures"]) != 1:
        raise ValueError("its envelope is of another form")
    return envelope, material


def _chain_of(material: Mapping[str, Any]) -> list[Certificate]:
    from cryptography.x509 import load_der_x509_certificate

    listed = material.get("x509CertificateChain", {}).get("certificates", [])
    if len(listed) > _LONGEST_CHAIN:
        raise ValueError("its chain of certificates is too long")
    return [load_der_x509_certificate(base64.b64decode(one["rawBytes"], validate=True)) for one in listed]


def _signer_of(
    payload: bytes, proof: bytes, material: Mapping[str, Any], chain: list[Certificate], pins: Sequence[PinnedKey]
) -> tuple[str | None, str]:
    """The pin whose signature it is, and who it says it is by. Raises SignatureInvalid: they did not sign it."""
    if chain:
        by = single_line(chain[0].subject.rfc4514_string())[:200] or "a certificate without a name"
        _check_proof(chain[0].public_key(), payload, proof, by)
        pin = next((pin for pin in pins if pin.certificate is not None and _leads_to(chain, pin.certificate)), None)
        if pin is None:
            pin = next((pin for pin in pins if pin.key is not None and pin.key == chain[0].public_key()), None)
        return (pin.signer if pin else None), by
    if "certificate" in material:
        return None, "an identity of Sigstore, which only its transparency log proves"
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    for pin in pins:
        key = pin.key if pin.key is not None else pin.certificate.public_key() if pin.certificate is not None else None
        hint = material.get("publicKey", {}).get("hint") if isinstance(material.get("publicKey"), dict) else None
        if key is not None:
            pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            if hint == hashlib.sha256(pem).hexdigest():
                _check_proof(key, payload, proof, pin.signer)
                return pin.signer, pin.signer
    return None, "a key that is not known here"


def _check_proof(key: object, payload: bytes, proof: bytes, by: str) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise _invalid(f"{OMS_FILE} is signed with a kind of key that is not used")
    try:
        key.verify(proof, _message(payload), _algorithm(key))
    except InvalidSignature:
        raise _invalid(f"{OMS_FILE} was not made by {by}") from None


def _leads_to(chain: list[Certificate], pinned: Certificate) -> bool:
    """Whether the signer's certificate is the pinned one, or was issued below it and may sign; judged at its first moment."""
    from cryptography import x509
    from cryptography.x509 import verification

    leaf = chain[0]
    if leaf == pinned:
        return True
    if not _may_sign(leaf):
        return False
    above = verification.ExtensionPolicy.permit_all().require_present(
        x509.BasicConstraints, verification.Criticality.AGNOSTIC, _is_authority
    )
    policy = verification.PolicyBuilder().store(verification.Store([pinned])).time(leaf.not_valid_before_utc)
    policy = policy.extension_policies(ca_policy=above, ee_policy=verification.ExtensionPolicy.permit_all())
    try:
        policy.build_client_verifier().verify(leaf, chain[1:])
    except verification.VerificationError:
        return False
    return True


def _is_authority(_policy: object, _certificate: object, constraints: Any) -> None:
    if not constraints.ca:
        raise ValueError("it may issue no certificates")


def _may_sign(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        extensions = certificate.extensions
    except ValueError:
        return False
    for one in extensions:
        if isinstance(one.value, x509.KeyUsage) and one.value.digital_signature:
            return True
        if isinstance(one.value, x509.ExtendedKeyUsage) and x509.oid.ExtendedKeyUsageOID.CODE_SIGNING in one.value:
            return True
    return False


def _check_files(directory: Path, payload: bytes) -> None:
    """Raises SignatureInvalid: the files are not those of the statement."""
    try:
        statement = read_json(payload.decode())
        if not isinstance(statement, dict) or (statement["_type"], statement["predicateType"]) != (_STATEMENT, _PREDICATE):
            raise ValueError("it states something else than a signature of files")
        form, resources = statement["predicate"]["serialization"], statement["predicate"]["resources"]
        (subject,) = statement["subject"]
        if form["method"] != "files" or any(one["algorithm"] != "sha256" for one in resources):
            raise ValueError("only whole files by their SHA-256 are compared")
        signed = {one["name"]: one["digest"] for one in resources}
        if len(signed) != len(resources) or _root_digest([one["digest"] for one in resources]) != subject["digest"]["sha256"]:
            raise ValueError("it contradicts itself")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(f"the statement of {OMS_FILE} is not used: {single_line(str(error))[:200]}") from None
    found = {path: digest for path, digest in _digests(directory, whole=True).items() if path in signed or not _left_out(path)}
    changed = sorted(path for path in signed.keys() | found.keys() if signed.get(path) != found.get(path))
    if changed:
        path = changed[0]
        how = "was changed" if path in signed and path in found else "is missing" if path in signed else "was added"
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise SignatureInvalid(
            f"the content is not what was signed: {single_line(path)[:200]} {how}{more}", hint=_HINT, files=changed[:100]
        )


def _digests(directory: Path, *, whole: bool = False) -> dict[str, str]:
    """The SHA-256 of every file that is signed, by path; with `whole` also of those that may be left out."""
    paths = []
    for entry in tree_entries(directory):
        if entry.path == OMS_FILE or (not whole and _left_out(entry.path)):
            continue
        if entry.kind in "lo":
            raise InvalidInput(f"{entry.path!r} is a link or no file", hint="only files are signed: put the file itself there")
        if entry.kind in "fx":
            paths.append(entry.path)
    return {path: hashlib.sha256(read_inside(directory, path, limit=_LARGEST_FILE)).hexdigest() for path in sorted(paths)}


def _left_out(path: str) -> bool:
    return path.partition("/")[0] in _MAY_BE_LEFT_OUT


def _root_digest(digests: list[str]) -> str:
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()


def _message(payload: bytes) -> bytes:
    """What is signed of an envelope."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _algorithm(key: EllipticCurvePublicKey) -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    return ECDSA(getattr(hashes, _CURVES[key.curve.name])())


def _named(encoded: bytes) -> str:
    return f"oms:{hashlib.sha256(encoded).hexdigest()}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pem(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_PEM)
    except OSError as error:
        hint = "name a PEM file; `skillyard key new --format oms` makes a key"
        raise InvalidInput(f"{os.fspath(path)} cannot be read: {error.strerror}", hint=hint) from None


def _invalid(message: str) -> SignatureInvalid:
    return SignatureInvalid(message, hint=_HINT)
