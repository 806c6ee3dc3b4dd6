"""Types of columns that mean the same in every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

_REPLACEMENT: Final = "\ufffd"


class Instant(TypeDecorator[datetime]):
    """A moment in UTC, aware of it also where the database is not."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Store the moment in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Give it back in UTC."""
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class SafeText(TypeDecorator[str]):
    """Text from anywhere; NUL and lone surrogates, which some databases refuse, become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Store what every database takes."""
        if value is None:
            return None
        return value.replace("\0", _REPLACEMENT).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
