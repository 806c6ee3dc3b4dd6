"""A part of a word is found among many skills by an index, and nothing else is found than without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, insert, make_url, or_, select, text, update

from skillyard.database import Database, isolated_url, make_schema, skill_definitions
from skillyard.database.registry_tables import make_substring_index
from skillyard.registry.record_queries import page_of_skills

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TEXTS = {
    "pdf-miner": ("PDF miner", "Takes text and tables out of PDF files. 100% of them: even a_b or a/b."),
    "bericht": ("Größenbericht", "Ein Bericht über GRÖSSE und Straße, İstanbul und ΣΊΣΥΦΟΣ."),
    "biao-ge": ("表格处理", "整理电子表格，生成报告。"),
    "odd": ('say "hi"', "Line one\nline two; quotes ' and \" and \\ and NEAR(a b) * ^ - OR AND NOT 🎉🎊🎈."),
    "x": ("y", "z"),
}


def _row(skill_id: str, name: str, description: str) -> dict[str, Any]:
    return {
        "skill_id": skill_id, "name": name, "description": description, "trigger_keywords": [], "tags": [],
        "is_active": True, "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip


def _fill(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(skill_definitions), [_row(key, *texts) for key, texts in TEXTS.items()])


@pytest.fixture
def filled(database: Database) -> Database:
    _fill(database)
    return database


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def unchanged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One that many tests read."""
    with ExitStack() as stack:
        url = stack.enter_context(request.getfixturevalue("_with_tables").one()) if request.param == "postgresql" else None
        opened = Database.open(str(tmp_path_factory.mktemp("unchanged")), url)
        stack.callback(opened.close)
        _fill(opened)
        yield opened


def found(database: Database, part: str) -> list[str]:
    """What a search of the list gives."""
    skills, total = page_of_skills(database, text=part)
    assert total == len(skills)
    return [skill.skill_id for skill in skills]


def looked_at(database: Database, part: str) -> list[str]:
    """The same without any index: the database looks into every skill."""
    table = skill_definitions.c
    fields = (table.skill_id, table.name, table.description)
    holds = or_(*(field.icontains(part.strip(), autoescape=True) for field in fields))
    with database.read() as connection:
        return list(connection.execute(select(table.skill_id).where(holds).order_by(table.skill_id)).scalars())


PARTS = (
    "pdf", "PDF FILES", "100%", "a_b", "a/b", "a%b", "größe", "GRÖSSE", "straße", "i̇stanbul", "σίσυφος", "表格",
    "电子表格", "格", "表格处理", 'say "hi"', '"hi"', "' and", "\\ and", "near(a b)", "one\nline", "🎉🎊", "🎊🎈",
    "🎉🎊🎈", "or AND not", "* ^ -", "x", "yz", "bericht", "Bericht über GRÖSSE und Straße, İstanbul und", "miner\x00",
    "\ud800miner", "zzz", "pdf-miner\n", "miner\nPDF",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_whatever_is_looked_for_the_index_changes_nothing(unchanged: Database, part: str) -> None:
    assert found(unchanged, part) == looked_at(unchanged, part)


@pytest.mark.parametrize(("part", "expected"), [("INER", ["pdf-miner"]), ("子表格", ["biao-ge"]), ("报告。", ["biao-ge"])])
def test_parts_of_words_are_found_in_any_script(unchanged: Database, part: str, expected: list[str]) -> None:
    assert found(unchanged, part) == expected


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database.open(str(tmp_path_factory.mktemp("large")))
    _fill(opened)
    yield opened
    opened.close()


@given(
    st.sampled_from([text for texts in TEXTS.values() for text in texts]),
    st.integers(0, 60),
    st.integers(1, 60),
    st.sampled_from([str, str.upper, str.lower, str.swapcase]),
    st.text(max_size=2),
)
def test_any_part_of_a_text_is_found_as_without_an_index(
    large: Database, whole: str, start: int, length: int, case: Callable[[str], str], more: str
) -> None:
    part = case(whole[start : start + length]) + more
    if part.strip():
        assert found(large, part) == looked_at(large, part)


def test_what_changes_is_found_by_what_it_says_now(filled: Database) -> None:
    table = skill_definitions
    with filled.write() as connection:
        connection.execute(update(table).where(table.c.skill_id == "odd").values(description="Peels carrots."))
        connection.execute(update(table).where(table.c.skill_id == "x").values(is_active=False))
        connection.execute(delete(table).where(table.c.skill_id == "bericht"))
        connection.execute(insert(table).values(_row("late", "latecomer", "Peels potatoes.")))
    assert [found(filled, part) for part in ("peels", "line one", "bericht", "comer")] == [["late", "odd"], [], [], ["late"]]
    with filled.write() as connection:
        connection.execute(delete(table))
    assert found(filled, "peels") == []


def test_a_database_that_was_compacted_finds_the_same(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path))
    with database.write() as connection:
        connection.execute(insert(skill_definitions), [_row(key, *texts) for key, texts in TEXTS.items()])
        connection.execute(delete(skill_definitions).where(skill_definitions.c.skill_id == "bericht"))
    database.close()
    import sqlite3

    with sqlite3.connect(tmp_path / "skillyard.db") as plain:
        plain.execute("VACUUM")
    plain.close()
    database = Database.open(str(tmp_path))
    assert (found(database, "miner"), found(database, "电子表格")) == (["pdf-miner"], ["biao-ge"])
    database.close()


def test_a_sqlite_without_trigrams_is_searched_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr("skillyard.database.registry_tables._SINCE", (9, 0))
        database = Database.open(str(tmp_path))
        with database.write() as connection:
            connection.execute(insert(skill_definitions), [_row(key, *texts) for key, texts in TEXTS.items()])
        assert found(database, "miner") == ["pdf-miner"]
        status = database.status()
        assert (status.current, status.indexed_search) == (True, False)
        assert "3.34" in status.search_hint
    database.upgrade()
    assert database.status().indexed_search
    assert found(database, "miner") == ["pdf-miner"]
    database.close()


def _role(url: str) -> str:
    """A URL of the same database for a role that may make tables there, and no extension."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain_writer LOGIN")
        connection.execute("GRANT ALL ON SCHEMA public TO plain_writer")
    return make_url(url).set(username="plain_writer").render_as_string(hide_password=False)


def test_who_may_make_no_extension_goes_on_without_the_index_and_is_told_how_to_get_it(
    address_of: Callable[[str], str], cli: Callable[..., Any]
) -> None:
    import psycopg

    url = address_of("postgresql")
    theirs = _role(url)
    try:
        database = Database.open("", theirs)
        with database.write() as connection:
            connection.execute(insert(skill_definitions), [_row(key, *texts) for key, texts in TEXTS.items()])
        status = database.status()
        assert (status.current, status.indexed_search) == (True, False)
        assert found(database, "电子表格") == ["biao-ge"]
        assert "CREATE EXTENSION pg_trgm" in cli(theirs, "db", "status").out
        assert "CREATE EXTENSION pg_trgm" in cli(theirs, "doctor").out
        with psycopg.connect(url, autocommit=True) as somebody:
            somebody.execute("CREATE EXTENSION pg_trgm WITH SCHEMA public")
        assert "by an index" in cli(theirs, "db", "upgrade").out
        assert database.status().indexed_search
        assert found(database, "miner") == ["pdf-miner"]
        database.close()
    finally:
        with psycopg.connect(url, autocommit=True) as somebody:
            somebody.execute("DROP OWNED BY plain_writer")
            somebody.execute("DROP ROLE plain_writer")


def test_every_organisation_has_an_index_of_its_own(address_of: Callable[[str], str], tmp_path: Path) -> None:
    url = address_of("postgresql")
    main = Database.open("", url)
    for name in ("org_acme", "org_red"):
        with main.write() as connection:
            make_schema(connection, name)
        own = Database.open("", isolated_url(str(tmp_path), name, url))
        with own.write() as connection:
            connection.execute(insert(skill_definitions).values(_row(name, name, "Does it.")))
            assert make_substring_index(connection)
        assert (own.status().indexed_search, found(own, "org_")) == (True, [name])
        own.close()
    with main.read() as connection:
        named = text("SELECT count(*) FROM pg_indexes WHERE indexname = 'skill_parts'")
        assert connection.execute(named).scalar() == 3
    main.close()
