"""What `[engine]` of the user's skillyard.toml says: where runs work, how many at once, and of whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self, get_args

from skillyard.engine.slots import Slots
from skillyard.settings_reader import Setting, Settings, SettingsReader, number, table_of, word

if TYPE_CHECKING:
    from skillyard.catalog import Configuration


EngineKind = Literal["local", "procrastinate"]
DEFAULT_POOL: Final = "default"
"""The pool of every run that names none, where all runs go through the queue."""

_MOST: Final = 10_000
_SETTINGS: Final[Settings] = {
    "kind": word(get_args(EngineKind), expected=" or ".join(get_args(EngineKind))),
    "pool": Setting(
        "the name of a worker pool", lambda pool: isinstance(pool, str) and bool(pool.strip()) and pool.isprintable()
    ),
    "concurrency": number(_MOST),
    "per-organisation": number(_MOST),
    "per-skill": table_of(number(_MOST), "a table of skills, each with a number"),
}


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
        file = configuration.user_file or "skillyard.toml"
        return cls(**SettingsReader(file).read(_SETTINGS, configuration.engine, "engine"))

    def slots(self) -> Slots:
        """The turns of one process."""
        return Slots(self.concurrency, per_organisation=self.per_organisation, per_skill=self.per_skill)
