"""What is asked again and again finds its rows by an index, so that it costs the same among a million."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from benchmarks.scaling.filling import fill
from benchmarks.scaling.plans import plans_of
from benchmarks.scaling.queries import HOT, READING_ALL
from skillyard.database import Database, skill_definitions


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database of each kind with a few thousand records of each sort."""
    if request.param == "sqlite":
        database = Database.open(str(tmp_path_factory.mktemp("plans")))
        fill(database, skills=2000, runs=4000)
        yield database
        database.close()
        return
    from importlib.util import module_from_spec, spec_from_file_location

    specification = spec_from_file_location("of_plans", Path(__file__).parents[1] / "postgresql.py")
    assert specification is not None
    assert specification.loader is not None
    postgresql = module_from_spec(specification)
    specification.loader.exec_module(postgresql)
    with postgresql.database_of(request.getfixturevalue("postgresql")) as url:
        database = Database.open("", url)
        fill(database, skills=2000, runs=4000)
        yield database
        database.close()


@pytest.mark.parametrize("name", HOT)
def test_it_is_found_by_an_index(filled: Database, name: str) -> None:
    plans = plans_of(filled, HOT[name])
    assert plans
    for plan in plans:
        assert plan.whole == (), plan


def test_a_table_that_is_read_from_end_to_end_is_reported(filled: Database) -> None:
    def by_author(database: Database) -> object:
        with database.read() as connection:
            return connection.execute(select(skill_definitions.c.name).where(skill_definitions.c.author == "ada")).all()

    plans = plans_of(filled, by_author)
    assert any(plan.whole == ("skill_definitions",) for plan in plans)


@pytest.mark.parametrize("name", [name for name in HOT if name.startswith("skills with")])
def test_a_part_of_a_word_is_found_by_its_trigrams(filled: Database, name: str) -> None:
    """Neither the count nor the page walks through the ids of all skills, which would be an index too."""
    plans = [plan for plan in plans_of(filled, HOT[name]) if "skill_definitions" in plan.statement]
    assert len(plans) == 2
    for plan in plans:
        assert any("skill_parts" in step for step in plan.steps), plan


@pytest.mark.parametrize("name", READING_ALL)
def test_what_reads_all_gives_what_there_is(filled: Database, name: str, address_of: Callable[[str], str]) -> None:
    assert READING_ALL[name](filled)
