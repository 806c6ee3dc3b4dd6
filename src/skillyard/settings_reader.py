"""Settings are read from tables: which keys there may be, what each must be, and how it is converted.

::

    SETTINGS = {"pool": text("the name of a worker pool"), "limits": {"read": number(1000), "write": number(100)}}
    values = SettingsReader(file).read(SETTINGS, table, "server")

A table that has tables with names of the user's beside its own keys has an entry `OTHER_TABLES`, which is `named_tables`. What
is absent from the table is absent from the values: defaults stand where the values are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skillyard.errors import InvalidConfiguration, InvalidInput


class Setting(NamedTuple):
    """What one key may hold: in words for the user, and as a check.

    `name` is that of the value, when it is not that of the key; `convert` makes the value from what is written, and may raise
    `InvalidInput`. Where `entries` is given, the value is a table with keys of the user's, each of which holds that; `quoted`
    says how such a key is written. Where `inner` is given, the value is a table with those settings. A `required` setting may
    not be absent.
    """

    expected: str
    accepts: Callable[[Any], bool]
    name: str = ""
    convert: Callable[[Any], Any] | None = None
    entries: Setting | None = None
    quoted: bool = False
    required: bool = False
    inner: Settings | None = None


Settings = Mapping[str, "Setting | Settings"]
"""The keys that a table may have; a table in it is described by a mapping of its own."""


def number(most: int | None = None, *, least: int = 1, name: str = "", convert: Callable[[int], Any] | None = None) -> Setting:
    """A whole number, at least `least` and not above `most`."""
    expected = f"a whole number above {least - 1}" if most is None else f"a number from {least:,} to {most:,}"

    def accepts(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most)

    return Setting(expected, accepts, name, convert)


def flag(name: str = "") -> Setting:
    """True or false."""
    return Setting("true or false", lambda value: isinstance(value, bool), name)


def word(words: tuple[str, ...], *, name: str = "", expected: str = "") -> Setting:
    """One of these words."""
    return Setting(expected or f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words, name)


def text(expected: str = "text", *, name: str = "", required: bool = False) -> Setting:
    """A text that is not blank."""
    return Setting(expected, lambda value: isinstance(value, str) and bool(value.strip()), name, required=required)


def texts(expected: str, convert: Callable[[list[str]], Any] = tuple) -> Setting:
    """A list of texts; a tuple is made of it."""

    def accepts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)

    return Setting(expected, accepts, convert=convert)


def table_of(entries: Setting, expected: str, *, name: str = "", quoted: bool = False) -> Setting:
    """A table with keys of the user's, each of which holds what `entries` says."""
    return Setting(expected, _is_table, name, MappingProxyType, entries, quoted)


def named_tables(settings: Settings, *, name: str, convert: Callable[[Mapping[str, Any]], Any]) -> Setting:
    """Tables whose names are the user's, each with these settings; the values are in a mapping called `name`."""
    return Setting("a table", _is_table, name, convert, inner=settings)


def anything() -> Setting:
    """A value that another component reads."""
    return Setting("a value", lambda _: True)


def any_table() -> Setting:
    """A table that another component reads."""
    return Setting("a table", _is_table, convert=MappingProxyType)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


OTHER_TABLES: Final = "*"
"""In settings: what each table may hold whose key is the user's own, beside the keys that are named."""


class SettingsReader(NamedTuple):
    """Takes values out of one settings file and says which key is wrong."""

    file: str

    def wrong(self, key: str, expected: str, value: object) -> InvalidConfiguration:
        """The error about one key of the file."""
        return InvalidConfiguration(
            f"{self.file}: {key} must be {expected}, not {value!r}",
            hint=f"change {key} in {self.file}",
            file=self.file,
            key=key,
        )

    def read(self, settings: Settings, table: object, path: str = "") -> dict[str, Any]:
        """The values of `table`, which is at `path` in the file, by their names.

        Raises:
            InvalidConfiguration: an unknown key, or a value that cannot be meant.
        """
        if not isinstance(table, Mapping):
            raise self.wrong(path, "a table", table)
        others = settings.get(OTHER_TABLES)
        named = {key: inner for key, inner in table.items() if key not in settings and _is_table(inner)} if others else {}
        for key in table:
            if key not in settings and key not in named:
                kind = "one of" if path else "one of the tables"
                known = [name for name in settings if name != OTHER_TABLES]
                raise self.wrong(_joined(path, key), f"{kind} {', '.join(known)}", key)
        values: dict[str, Any] = {}
        if isinstance(others, Setting) and named:
            values[others.name] = {str(key): self._value(others, inner, _joined(path, key)) for key, inner in named.items()}
        for key, setting in settings.items():
            if key == OTHER_TABLES:
                continue
            value, at = table.get(key), _joined(path, key)
            if isinstance(setting, Mapping):
                values[key.replace("-", "_")] = self.read(setting, table.get(key, {}), at)
            elif value is not None or setting.required:
                values[setting.name or key.replace("-", "_")] = self._value(setting, value, at)
        return values

    def _value(self, setting: Setting, value: Any, key: str) -> Any:
        if not setting.accepts(value):
            raise self.wrong(key, setting.expected, value)
        if (entries := setting.entries) is not None:
            value = {
                str(name): self._value(entries, inner, f'{key}."{name}"' if setting.quoted else f"{key}.{name}")
                for name, inner in value.items()
            }
        if setting.inner is not None:
            value = self.read(setting.inner, value, key)
        try:
            return value if setting.convert is None else setting.convert(value)
        except InvalidInput as error:
            raise InvalidConfiguration(
                f"{self.file}: {key}: {error.message}", hint=error.hint, file=self.file, key=key
            ) from None


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)
