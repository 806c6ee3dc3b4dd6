"""Stars, collections and saved searches: each person's own, on both databases."""

from __future__ import annotations

import pytest

from skillyard.access import STARS, SkillCollections
from skillyard.access import collections as limits
from skillyard.database import Database
from skillyard.errors import InvalidInput, RecordNotFound
from skillyard.registry.registry_records import Popularity


@pytest.fixture
def kept(database: Database) -> SkillCollections:
    """Nothing yet."""
    return SkillCollections(lambda: database)


def test_a_star_is_of_one_person_and_is_given_once(kept: SkillCollections, database: Database) -> None:
    assert kept.add("default/ada", "user:pdf")
    assert not kept.add("default/ada", "user:pdf")
    assert kept.add("default/ada", "installed:tidy")
    assert kept.add("default/bob", "installed:tidy")
    assert kept.skills("default/ada") == ("installed:tidy", "user:pdf")  # the last first
    assert kept.skills("default/bob") == ("installed:tidy",)
    assert {skill: counts.stars for skill, counts in Popularity(database).counts().items()} == {"tidy": 2}
    assert kept.remove("default/ada", "installed:tidy")
    assert not kept.remove("default/ada", "installed:tidy")
    assert kept.all("default/ada") == {STARS: ("user:pdf",)}
    assert kept.skills("default/bob") == ("installed:tidy",)


def test_a_collection_begins_with_its_first_skill_and_ends_with_its_last(kept: SkillCollections) -> None:
    assert kept.add("ada", "user:pdf", " Paper\nwork ")
    assert kept.add("ada", "user:docx", "Paper work")
    assert kept.add("ada", "user:pdf")
    assert kept.all("ada") == {STARS: ("user:pdf",), "Paper work": ("user:docx", "user:pdf")}
    assert kept.remove("ada", "user:pdf", "Paper work")
    assert kept.skills("ada", "Paper work") == ("user:docx",)
    with pytest.raises(RecordNotFound, match='no collection "Paperwork"') as caught:
        kept.delete("ada", "Paperwork")
    assert caught.value.hint == "did you mean Paper work?"
    with pytest.raises(RecordNotFound):
        kept.delete("bob", "Paper work")
    kept.delete("ada", "Paper work")
    assert kept.all("ada") == {STARS: ("user:pdf",)}


def test_a_search_is_kept_under_its_name_until_it_is_saved_anew_or_deleted(kept: SkillCollections) -> None:
    kept.save_search("ada", "mine", {"q": "tables", "sort": "used"})
    kept.save_search("ada", "Mine too", {"tag": "data"})
    again = kept.save_search("ada", "mine", {"source": "user"})
    assert [(one.name, one.search) for one in kept.searches("ada")] == [
        ("Mine too", {"tag": "data"}),
        ("mine", {"source": "user"}),
    ]
    assert kept.searches("ada")[1].saved_at == again.saved_at
    assert kept.searches("bob") == ()
    with pytest.raises(RecordNotFound, match='no saved search "min"') as caught:
        kept.delete_search("ada", "min")
    assert caught.value.hint == "did you mean mine?"
    kept.delete_search("ada", "mine")
    assert [one.name for one in kept.searches("ada")] == ["Mine too"]


@pytest.mark.parametrize("name", ["", " \n", "x" * 81])
def test_what_is_no_name_is_refused(kept: SkillCollections, name: str) -> None:
    with pytest.raises(InvalidInput, match="needs a name of at most 80 characters"):
        kept.save_search("ada", name, {"q": "tables"})
    if name:
        with pytest.raises(InvalidInput, match="needs a name of at most 80 characters"):
            kept.add("ada", "user:pdf", name)


def test_nobody_keeps_more_than_there_is_room_for(kept: SkillCollections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_COLLECTED", 2)
    monkeypatch.setattr(limits, "MOST_SAVED", 2)
    for skill in ("user:a", "user:b"):
        kept.add("ada", skill)
        kept.add("ada", skill, f"with {skill}")
        kept.save_search("ada", skill, {"q": skill})
    with pytest.raises(InvalidInput, match="you have stars on 2 skills"):
        kept.add("ada", "user:c")
    with pytest.raises(InvalidInput, match="you have 2 collections"):
        kept.add("ada", "user:c", "one more")
    with pytest.raises(InvalidInput, match="you have 2 saved searches"):
        kept.save_search("ada", "one more", {"q": "c"})
    assert not kept.add("ada", "user:a")  # it was there
    assert kept.add("bob", "user:c")
    kept.save_search("ada", "user:a", {"q": "another"})
