"""What every error is: a code, a status, a message and a way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import ClassVar, Self


class SkillyardError(Exception):
    """The root of the tree: a message, a `hint` that tells how to fix it, and `details` for programs."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def sentence(self) -> str:
        """What happened and, in brackets, how to fix it: where there is one line for both."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """A copy of the error with every text of it, in the details too, replaced by what `change` makes of it."""
        other = copy(self)
        other.message, other.hint = change(self.message), self.hint and change(self.hint)
        other.details = {name: _with_texts(value, change) for name, value in self.details.items()}
        other.args = (other.message,)
        return other

    def to_dict(self) -> dict[str, object]:
        """The error as plain data: `{"code", "message", "hint"?, ...details}`."""
        shape: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint:
            shape["hint"] = self.hint
        return shape | self.details


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _with_texts(one, change) for name, one in value.items()}
    return [_with_texts(one, change) for one in value] if isinstance(value, list | tuple) else value
