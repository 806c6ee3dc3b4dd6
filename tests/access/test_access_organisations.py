"""Organisations: names that are safe as folders and schemas, and databases that share nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url, select

from skillyard.access import AuditLog, Organisation, Organisations
from skillyard.database import Database, audit_events, isolated_url
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound


def test_organisations_are_made_once_and_listed_after_the_default_one(organisations: Organisations) -> None:
    organisations.create("zeta-1")
    organisations.create("acme")
    assert [one.name for one in organisations.all()] == ["default", "acme", "zeta-1"]
    for taken in ("acme", "default"):
        with pytest.raises(RecordExists):
            organisations.create(taken)
    with pytest.raises(RecordNotFound) as missing:
        organisations.get("acmee")
    assert missing.value.hint == "did you mean acme?"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "Acme", "a_b", "-a", "a-", "a--b", "ä", "a b", "a\n", "x" * 41, "a;b"]
)
def test_a_name_that_could_be_another_place_is_refused(organisations: Organisations, name: str) -> None:
    with pytest.raises(InvalidInput):
        organisations.create(name)
    assert len(organisations.all()) == 1


@given(st.text("ab1-", min_size=1, max_size=8), st.text("ab1-", min_size=1, max_size=8))
def test_no_two_names_share_a_folder_or_a_schema(one: str, other: str) -> None:
    left, right = Organisation(one), Organisation(other)
    assert (left.schema == right.schema) == (one == other)
    assert (left.home("/d") == right.home("/d")) == (one == other)


def test_the_records_of_two_organisations_share_nothing(
    organisations: Organisations, database: Database, database_address: str, tmp_path: Path
) -> None:
    opened = {}
    for name in ("acme", "zeta"):
        made = organisations.create(name)
        home = made.home(str(tmp_path))
        opened[name] = Database.open(home, isolated_url(home, made.schema or "", database_address))
    AuditLog(lambda: opened["acme"]).record("install", "secret-skill")
    assert [event.subject for event in AuditLog(lambda: opened["acme"]).events()] == ["secret-skill"]
    assert AuditLog(lambda: opened["zeta"]).events() == ()
    with database.read() as connection:
        assert "secret-skill" not in set(connection.execute(select(audit_events.c.subject)).scalars())
    for each in opened.values():
        assert each.status().current
        each.close()


def test_options_that_an_address_has_already_stay(tmp_path: Path) -> None:
    given = "postgresql://u:p%40ss@h/db?options=-cstatement_timeout%3D5s"
    found = make_url(isolated_url(str(tmp_path), "org_acme", given))
    assert found.query["options"] == "-cstatement_timeout=5s -csearch_path=org_acme"
    assert found.password == "p@ss"
    assert isolated_url("/h/organisations/acme", "org_acme", "sqlite:////var/x.db").endswith(
        "/h/organisations/acme/skillyard.db"
    )
