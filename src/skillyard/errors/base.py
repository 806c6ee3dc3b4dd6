"""What every error is: a code, a status, a message and a way out."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["SkillyardError"]


class SkillyardError(Exception):
    """The root of the tree: a message, a `hint` that tells how to mend it, and `details` for programs."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def sentence(self) -> str:
        """What happened and, in brackets, how to mend it: where there is one line for both."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def to_dict(self) -> dict[str, object]:
        """The error as plain data: `{"code", "message", "hint"?, ...details}`."""
        shape: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint:
            shape["hint"] = self.hint
        return shape | self.details
