"""Secrets that are made here: enough randomness that nobody guesses one, and only their SHA-256 is kept.

A slow hash is for what people think up. These have 256 bits: who has the hash has nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from typing import Final

__all__ = ["hash_of", "new_secret", "same"]

_LETTERS: Final = string.digits + string.ascii_letters
_LENGTH: Final = 43  # 62 ** 43 is more than 2 ** 256
_LONGEST: Final = 200


def new_secret(prefix: str = "") -> str:
    """43 random letters and digits after `prefix`: one word, whole on a double click."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def hash_of(secret: str) -> str:
    """What is kept of a secret, as hex; the same for everything that is longer than any secret."""
    return hashlib.sha256(secret[:_LONGEST].encode("utf-8", "surrogatepass")).hexdigest()


def same(left: str, right: str) -> bool:
    """Whether two hashes are the same, in a time that tells nothing about where they differ."""
    return secrets.compare_digest(left, right)
