"""Settings read from tables: defaults stay away, names and values are converted, and every mistake names its key."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.settings_reader import Settings, SettingsReader, any_table, flag, number, table_of, text, texts, word


def _upper(given: list[str]) -> tuple[str, ...]:
    if "bad" in given:
        raise InvalidInput("'bad' is no name", hint="take another")
    return tuple(name.upper() for name in given)


SETTINGS: Settings = {
    "on": flag("enabled"),
    "kind": word(("slow", "fast")),
    "pool-size": number(1000),
    "minutes": number(name="seconds", convert=lambda minutes: 60 * minutes),
    "names": texts("a list of names", _upper),
    "inner": {"url": text()},
    "each": table_of(number(9), "a table of numbers", quoted=True),
    "other": any_table(),
}


def read(table: object) -> dict[str, object]:
    return SettingsReader("s.toml").read(SETTINGS, table, "server")


def test_what_is_absent_is_absent_from_the_values_too() -> None:
    assert read({}) == {"inner": {}}


def test_values_come_by_their_names_and_converted() -> None:
    table = {
        "on": True, "kind": "fast", "pool-size": 1000, "minutes": 2, "names": ["a"], "inner": {"url": "x"}, "each": {"p": 9},
        "other": {"any": [1]},
    }  # fmt: skip
    assert read(table) == {
        "enabled": True, "kind": "fast", "pool_size": 1000, "seconds": 120, "names": ("A",), "inner": {"url": "x"},
        "each": {"p": 9}, "other": {"any": [1]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "key", "says"),
    [
        ([], "server", "server must be a table, not []"),
        ({"onn": True}, "server.onn", "server.onn must be one of on, kind, pool-size"),
        ({"on": 1}, "server.on", "server.on must be true or false, not 1"),
        ({"kind": "quick"}, "server.kind", "server.kind must be one of slow, fast, not 'quick'"),
        ({"pool-size": 1001}, "server.pool-size", "server.pool-size must be a number from 1 to 1,000, not 1001"),
        ({"pool-size": True}, "server.pool-size", "from 1 to 1,000, not True"),
        ({"minutes": 0}, "server.minutes", "server.minutes must be a whole number above 0, not 0"),
        ({"names": ["a", 1]}, "server.names", "server.names must be a list of names, not ['a', 1]"),
        ({"names": ["bad"]}, "server.names", "server.names: 'bad' is no name"),
        ({"inner": 3}, "server.inner", "server.inner must be a table, not 3"),
        ({"inner": {"uri": "x"}}, "server.inner.uri", "server.inner.uri must be one of url, not 'uri'"),
        ({"inner": {"url": " "}}, "server.inner.url", "server.inner.url must be text, not ' '"),
        ({"each": {"p q": 10}}, 'server.each."p q"', "must be a number from 1 to 9, not 10"),
        ({"other": 1}, "server.other", "server.other must be a table, not 1"),
    ],
)
def test_a_mistake_names_its_key_and_the_file(table: object, key: str, says: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        read(table)
    assert caught.value.message.startswith("s.toml: ")
    assert says in caught.value.message
    assert caught.value.details == {"file": "s.toml", "key": key}
    assert caught.value.hint


@pytest.mark.parametrize("entry", [{}, {"rule": None}])
def test_a_required_setting_may_not_be_absent(entry: Mapping[str, object]) -> None:
    with pytest.raises(InvalidConfiguration, match=r"scan\.rule must be text, in every entry, not None"):
        SettingsReader("s.toml").read({"rule": text("text, in every entry", required=True)}, entry, "scan")
