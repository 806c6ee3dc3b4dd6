"""What `[engine]` of the user's skillyard.toml says: where runs work, how many at once, and of whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from skillyard.engine.slots import Slots
from skillyard.errors import InvalidConfiguration

if TYPE_CHECKING:
    from skillyard.catalog import Configuration


EngineKind = Literal["local", "procrastinate"]
DEFAULT_POOL: Final = "default"
"""The pool of every run that names none, where all runs go through the queue."""

_KEYS: Final = ("kind", "pool", "concurrency", "per-organisation", "per-skill")
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`kind` is where runs work: in this process, or all of them in the worker pool `pool`.

    `concurrency` is how many work at once in one process, `per_organisation` how many of one organisation, `per_skill` how many
    of the skills with those names or ids; with a queue the last two hold for all workers together.
    """

    kind: EngineKind = "local"
    pool: str = DEFAULT_POOL
    concurrency: int | None = None
    per_organisation: int | None = None
    per_skill: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The checked settings of a configuration.

        Raises:
            InvalidConfiguration: an unknown key, or a value that cannot be meant.
        """
        reader = _SettingsReader(configuration.user_file or "skillyard.toml", configuration.engine)
        for key in configuration.engine:
            if key not in _KEYS:
                raise reader.wrong(key, f"one of {', '.join(_KEYS)}", key)
        pool = configuration.engine.get("pool", DEFAULT_POOL)
        if not isinstance(pool, str) or not pool.strip() or not pool.isprintable():
            raise reader.wrong("pool", "the name of a worker pool", pool)
        return cls(
            kind=reader.kind(),
            pool=pool,
            concurrency=reader.number("concurrency"),
            per_organisation=reader.number("per-organisation"),
            per_skill=reader.numbers("per-skill"),
        )

    def slots(self) -> Slots:
        """The turns of one process."""
        return Slots(self.concurrency, per_organisation=self.per_organisation, per_skill=self.per_skill)


@dataclass(frozen=True, slots=True)
class _SettingsReader:
    """Takes values out of the table and says which key is wrong."""

    file: str
    table: Mapping[str, object]

    def wrong(self, key: str, wanted: str, value: object) -> InvalidConfiguration:
        message = f"{self.file}: engine.{key} must be {wanted}, not {value!r}"
        return InvalidConfiguration(message, hint=f"change engine.{key} in {self.file}", file=self.file, key=f"engine.{key}")

    def kind(self) -> EngineKind:
        value = self.table.get("kind", "local")
        for known in get_args(EngineKind):
            if value == known:
                found: Any = known
                return found  # type: ignore[no-any-return] # one of the words
        raise self.wrong("kind", " or ".join(get_args(EngineKind)), value)

    def number(self, key: str) -> int | None:
        value = self.table.get(key)
        return None if value is None else self._checked(key, value)

    def numbers(self, key: str) -> Mapping[str, int]:
        table = self.table.get(key, {})
        if not isinstance(table, Mapping):
            raise self.wrong(key, "a table of skills, each with a number", table)
        return {str(name): self._checked(f"{key}.{name}", value) for name, value in table.items()}

    def _checked(self, key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
            raise self.wrong(key, f"a number from 1 to {_MOST:,}", value)
        return value
