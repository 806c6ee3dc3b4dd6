"""Name the exact content of a skill's folder by one digest, and sign it.

An approval goes by the digest, and ends when anything in the folder changes. A signature tells who vouches for the content:
`skillyard.sig` lies beside SKILL.md and so travels with every archive, repository and copy. It signs the digest of everything
else in the folder. Keys are Ed25519; a signer is identified by the public key, written `ed25519:` and 44 characters of base64.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, cast, get_args

from skillyard.errors import DigestMismatch, InvalidInput, SignatureInvalid
from skillyard.packages.archive_entries import PackageLimits
from skillyard.paths import CLOEXEC, NOCTTY, NOFOLLOW, NONBLOCK, is_reserved
from skillyard.times import utc_now, utc_text
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | NOCTTY
_CHUNK: Final = 1024 * 1024

EntryKind = Literal["f", "x", "l", "d", "o"]
"""A file, an executable file, a link, an empty folder, or anything else such as a pipe."""


class TreeEntry(NamedTuple):
    """One entry of a folder's tree: its path in it, its kind, and its size in bytes (0 for an empty folder)."""

    path: str
    kind: EntryKind
    size: int


def tree_entries(
    root: str | os.PathLike[str],
    without: Callable[[str, os.DirEntry[str]], bool] = lambda _path, _entry: False,
    *,
    lenient: bool = False,
) -> Iterator[TreeEntry]:
    """Everything below `root` but for what `without` excludes, in no order; links are not followed.

    A folder is an entry only when nothing in it is one. Names that are not UTF-8 have surrogates, as in `os.fsdecode`. Where
    it is `lenient`, what cannot be listed, or has gone meanwhile, has no entries.

    Raises:
        OSError: a folder cannot be listed.
    """
    waiting = [""]
    for prefix in waiting:  # grows while it runs
        empty = True
        with (
            contextlib.suppress(OSError) if lenient else contextlib.nullcontext(),
            os.scandir(f"{os.fspath(root)}/{prefix}") as entries,
        ):
            for entry in entries:
                path = prefix + entry.name
                if without(path, entry):
                    continue
                empty = False
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(f"{path}/")
                else:
                    yield TreeEntry(path, _entry_kind(status.st_mode), status.st_size)
        if empty and prefix:
            yield TreeEntry(prefix[:-1], "d", 0)


def _entry_kind(mode: int) -> EntryKind:
    if not stat.S_ISREG(mode):
        return "l" if stat.S_ISLNK(mode) else "o"
    return "x" if mode & 0o111 else "f"


def tree_size(root: str | os.PathLike[str], *, lenient: bool = False) -> int:
    """The bytes of all files below a folder; `lenient` as for `tree_entries`."""
    return sum(entry.size for entry in tree_entries(root, lenient=lenient))


def tree_digest(directory: str | os.PathLike[str], *, without: str | None = None) -> str:
    """`sha256:` and 64 hex digits over every file below `directory`, hidden ones included, but for the one path `without`.

    For each path in bytewise order: a letter for its kind (`f` file, `x` executable file, `l` link, `d` empty folder, `o`
    other, such as records in use), the length of the path, the path, and the SHA-256 of the bytes (of a link: its target).
    Links are never followed, so what they lead to is not part of the skill.
    """
    return digest_of_entries(_contents(directory, left_out=without))


def file_digests(directory: str | os.PathLike[str]) -> dict[str, str]:
    """For each path below `directory` what its content is: the letter and SHA-256 that `tree_digest` takes.

    Names that are no UTF-8 have their bytes as the surrogates of `os.fsdecode`.
    """
    return {path: content for path, content in content_digests(directory).items() if content[0] != "d"}


def content_digests(directory: str | os.PathLike[str]) -> dict[str, str]:
    """As `file_digests`, with the empty folders: everything that `tree_digest` takes."""
    return {path: kind + content.hex() for path, kind, content in _contents(directory)}


def digest_of_contents(contents: Mapping[str, str]) -> str:
    """The digest of a tree from what `content_digests` gives.

    Raises:
        ValueError: one of them is no letter and SHA-256.
    """
    entries: list[tuple[str, EntryKind, bytes]] = []
    for path in sorted(contents, key=os.fsencode):
        kind, content = contents[path][:1], bytes.fromhex(contents[path][1:])
        if kind not in get_args(EntryKind) or len(content) != hashlib.sha256().digest_size:
            raise ValueError(f"{contents[path]!r} is not a letter and SHA-256")
        entries.append((path, cast("EntryKind", kind), content))
    return digest_of_entries(entries)


def digest_of_entries(entries: Iterable[tuple[str, EntryKind, bytes]]) -> str:
    """The digest of a tree from path, letter and SHA-256 of each entry, sorted bytewise by path."""
    digest = hashlib.sha256(b"skillyard tree 1\n")
    for name, kind, content in entries:
        path = os.fsencode(name)
        digest.update(kind.encode() + len(path).to_bytes(8, "big") + path + content)
    return f"sha256:{digest.hexdigest()}"


def _contents(directory: str | os.PathLike[str], *, left_out: str | None = None) -> Iterator[tuple[str, EntryKind, bytes]]:
    """Path, letter and SHA-256 of everything in a folder, sorted bytewise by path; the path `left_out` is not even read."""
    for path, kind, _ in sorted(tree_entries(directory), key=lambda entry: os.fsencode(entry.path)):
        if path == left_out:
            continue
        whole = f"{os.fspath(directory)}/{path}"
        if kind in ("f", "x") and is_reserved(whole):
            kind = "o"
        yield path, kind, _content(whole, kind)


def _content(path: str, kind: EntryKind) -> bytes:
    if kind == "l":
        return hashlib.sha256(os.fsencode(os.readlink(path))).digest()  # noqa: PTH115 # as it is written
    digest = hashlib.sha256()
    if kind in ("f", "x"):
        descriptor = os.open(path, _FLAGS)
        try:
            while chunk := os.read(descriptor, _CHUNK):
                digest.update(chunk)
        finally:
            os.close(descriptor)
    return digest.digest()


DIGEST_PATTERN: Final = re.compile(r"sha256:([0-9a-f]{64})")


def digest_of(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_hex(digest: str) -> str:
    """The 64 hex digits of a digest. Raises InvalidInput: it is no digest."""
    match = DIGEST_PATTERN.fullmatch(digest)
    if not match:
        raise InvalidInput(f"{digest[:100]!r} is not a digest", hint="for example sha256: and 64 lower-case hex digits")
    return match[1]


def check_size(size: int, digest: str) -> None:
    """Refuse what is larger than any package, before it is read into memory.

    Raises:
        DigestMismatch: it cannot be what was put there.
    """
    if size > PackageLimits().archive:
        raise DigestMismatch(
            f"what the store has under {digest} is {size:,} bytes, more than any package",
            hint="somebody else wrote it there: check who may write to the store",
            expected=digest,
        )


def check_content(data: bytes, digest: str | None) -> str:
    """The digest of `data`. Raises DigestMismatch: it is not the `digest` that is given."""
    actual = digest_of(data)
    if digest is not None and f"sha256:{digest_hex(digest)}" != actual:
        raise DigestMismatch(
            f"the content has the digest {actual} and not {digest}",
            hint="it was changed or damaged: get it again from where it was published",
            expected=digest,
            found=actual,
        )
    return actual


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

    version: int = field(default=1, init=False)
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

        write_new_key(path, self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def sign(self, digest: str) -> Signature:
        """Vouch for the content with that digest, now."""
        signature = Signature(digest, self.public, utc_text(utc_now(), to="seconds"), "")
        made = self._private.sign(signature.message())
        return Signature(signature.digest, signature.key, signature.signed_at, base64.b64encode(made).decode())


def write_new_key(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read. Raises InvalidInput: there is one already, or it cannot be written."""
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
            raise SignatureInvalid(f"{SIGNATURE_FILE} is of a form that is not known", hint="a newer Skillyard may support it")
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
