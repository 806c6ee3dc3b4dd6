"""Signatures: who vouches for the content of a skill, in a file of the skill itself.

`skillyard.sig` lies beside SKILL.md and so travels with every archive, repository and copy. It signs the digest of everything
else in the folder. Keys are Ed25519; a signer is identified by the public key, written `ed25519:` and 44 characters of base64.
"""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from skillyard.errors import InvalidInput, SignatureInvalid
from skillyard.packages.digest import tree_digest
from skillyard.paths import CLOEXEC, NOFOLLOW
from skillyard.times import utc_now, utc_text
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


SIGNATURE_FILE: Final = "skillyard.sig"
_LIMIT: Final = 4096  # bytes
_KEY: Final = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/]{86}==")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


@dataclass(frozen=True, slots=True)
class Signature(WireForm):
    """The content of `skillyard.sig`: the holder of the private half of `key` signed the `digest` at `signed_at` (UTC)."""

    digest: str
    key: str
    signed_at: str
    signature: str

    def message(self) -> bytes:
        """The bytes that are signed: a heading of their own, so that they can be mistaken for nothing else."""
        return f"skillyard signature 1\n{self.digest}\n{self.key}\n{self.signed_at}\n".encode()

    def verify(self) -> None:
        """Make sure that the holder of `key` signed this.

        Raises:
            SignatureInvalid: it is not signed with that key, or the key is invalid.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.key.removeprefix("ed25519:"), validate=True))
            public.verify(base64.b64decode(self.signature, validate=True), self.message())
        except (InvalidSignature, ValueError):
            raise SignatureInvalid(f"{SIGNATURE_FILE} was not made by {self.key}", hint=_REPACK_HINT) from None

    def to_dict(self) -> dict[str, Any]:
        """The signature as it is in its file."""
        return {"version": 1, **WireForm.to_dict(self)}


class SigningKey:
    """A private key of this machine; `public` is how others know it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = f"ed25519:{base64.b64encode(private.public_key().public_bytes_raw()).decode()}"

    @classmethod
    def new(cls) -> Self:
        """A new random key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path) -> Self:
        """The key in a PEM file.

        Raises:
            InvalidInput: the file is missing, is no Ed25519 key, is encrypted, or can be read by others.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            if path.stat().st_mode & 0o077:
                raise InvalidInput(f"the key {path} can be read by others", hint=f"chmod 600 {path}")
            private = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise InvalidInput(
                f"the key {path} cannot be read: {error.strerror}", hint="`skillyard key new` makes one"
            ) from None
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} is not a key: {error}", hint="`skillyard key new` makes one") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidInput(f"{path} is another kind of key", hint="Ed25519 is used; `skillyard key new` makes one")
        return cls(private)

    def write(self, path: Path) -> None:
        """Keep the key in a new PEM file that only its owner can read.

        Raises:
            InvalidInput: there is such a file already, or it cannot be written.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        data = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise InvalidInput(f"there is a key {path} already", hint="give the new one another name") from None
        except OSError as error:
            raise InvalidInput(f"the key {path} cannot be written: {error.strerror}", hint="check the folder") from None

    def sign(self, digest: str) -> Signature:
        """Vouch for the content with that digest, now."""
        signature = Signature(digest, self.public, utc_text(utc_now(), to="seconds"), "")
        made = self._private.sign(signature.message())
        return Signature(signature.digest, signature.key, signature.signed_at, base64.b64encode(made).decode())


def is_signer(text: str) -> bool:
    """Whether a text has the form of a signer's public key."""
    return _KEY.fullmatch(text) is not None


def sign_tree(directory: Path, key: SigningKey) -> Signature:
    """Sign the skill in `directory`; a signature that is there is replaced, in one step.

    Raises:
        OSError: it cannot be read or written.
    """
    from skillyard.files import replace_file

    signature = key.sign(_signed_digest(directory))
    text = json.dumps(signature.to_dict(), indent=2) + "\n"
    replace_file(directory / SIGNATURE_FILE, text.encode(), mode=0o644)
    return signature


def read_signature(directory: Path) -> Signature | None:
    """The signature in the folder of a skill, not verified; None when it is not signed.

    Raises:
        SignatureInvalid: the file is no signature.
    """
    from skillyard.errors import FileMissing, FileProblem
    from skillyard.paths import read_inside

    try:
        shape = json.loads(read_inside(directory, SIGNATURE_FILE, limit=_LIMIT))
        if not isinstance(shape, dict) or shape.get("version") != 1:
            raise SignatureInvalid(f"{SIGNATURE_FILE} is of a form that is not known", hint="a newer Skillyard may know it")
        fields = {name: _text(shape, name, form) for name, form in _FORMS.items()}
    except FileMissing:
        return None
    except (FileProblem, ValueError, RecursionError) as error:
        raise SignatureInvalid(f"{SIGNATURE_FILE} cannot be read: {error}", hint=_REPACK_HINT) from None
    return Signature(**fields)


def verify_tree(directory: Path) -> Signature | None:
    """The signature of the skill in `directory`, verified; None when it is not signed.

    Raises:
        SignatureInvalid: it has a signature that does not hold: the content is another, or the signer is.
    """
    signature = read_signature(directory)
    if signature is None:
        return None
    signature.verify()
    if _signed_digest(directory) != signature.digest:
        raise SignatureInvalid(f"the content is not what {signature.key} signed", hint=_REPACK_HINT, key=signature.key)
    return signature


def _signed_digest(directory: Path) -> str:
    return tree_digest(directory, without=SIGNATURE_FILE)


def _text(shape: dict[str, object], name: str, form: re.Pattern[str]) -> str:
    value = shape.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"its {name} is not one")
    return value


_FORMS: Final = {"digest": _DIGEST, "key": _KEY, "signed_at": _TIME, "signature": _SIGNATURE}
_REPACK_HINT: Final = "get the package again from who publishes it; `skillyard sign` signs your own after an edit"
