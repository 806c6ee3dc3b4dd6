"""Secrets by name: `${NAME}` in a header or a server's settings becomes the value an operator granted, and never comes back.

The grants are the environment of the operator's ceiling (`Policy.environment`, for the names in `Policy.secrets`). A skill
knows their names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from skillyard.sandbox.environment import redact

if TYPE_CHECKING:
    from skillyard.sandbox import Policy


_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")


class MissingGrant(Exception):
    """A name that no operator granted; its text is a sentence."""


class SecretGrants:
    """What an operator grants, and the values that were handed out."""

    def __init__(self, ceiling: Policy) -> None:
        self._granted = {name: value for name, value in ceiling.environment.items() if name in ceiling.secrets and value}
        self._used: dict[str, str] = {}

    def fill(self, texts: Mapping[str, str]) -> dict[str, str]:
        """`texts` with every `${NAME}` in their values replaced.

        Raises:
            MissingGrant: a name is not granted, or has no value here.
        """
        return {key: _NAME.sub(self._value, text) for key, text in texts.items()}

    def asks(self, texts: Iterable[str]) -> bool:
        """Whether any of `texts` names a secret."""
        return any(_NAME.search(text) for text in texts)

    def redacted(self, value: object) -> object:
        """`value` without the values that were handed out, wherever in it they stand; keys included."""
        if not self._used:
            return value
        if isinstance(value, str):
            return self.redacted_bytes(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, Mapping):
            return {self.redacted(key): self.redacted(item) for key, item in value.items()}
        return [self.redacted(item) for item in value] if isinstance(value, (list, tuple)) else value

    def redacted_text(self, text: str) -> str:
        """A text without the values that were handed out."""
        return str(self.redacted(text))

    def redacted_bytes(self, data: bytes) -> bytes:
        """Bytes without the values that were handed out, also where they are encoded in one of the usual ways."""
        return redact(data, sorted(self._used.values(), key=len, reverse=True))

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._granted:
            raise MissingGrant(f"the secret {name} is not granted here")
        self._used[name] = self._granted[name]
        return self._granted[name]
