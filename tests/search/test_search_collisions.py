"""Skills that a model would mix up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.search import find_collisions


@pytest.fixture
def twins(skills_root: Path, make_skill: Any) -> Catalog:
    says = "Reviews pull requests for defects and comments on them"
    make_skill(skills_root, "review-pull", description=f"{says}.", body="Use gerrit and kerberos.\n")
    make_skill(skills_root, "pull-review", description=f"{says}.", body="Use gitlab and pipelines.\n")
    make_skill(skills_root, "bakery", description="Bakes sourdough bread at home.")
    return Catalog.discover(roots=[skills_root])


def test_two_that_say_the_same_are_found_with_their_words_and_a_way_out(twins: Catalog) -> None:
    (collision,) = find_collisions(twins.all())
    assert {collision.first.name, collision.second.name} == {"review-pull", "pull-review"}
    assert collision.alike == 1.0
    assert "defects" in collision.shared
    assert collision.apart["config:review-pull"] == ("gerrit", "kerberos")
    assert collision.apart["config:pull-review"] == ("gitlab", "pipelines")
    assert "gerrit" in collision.advice
    assert collision.to_dict()["skills"] == [collision.first.id, collision.second.id]


def test_copies_have_no_words_that_tell_them_apart(skills_root: Path, make_skill: Any) -> None:
    for name in ("one-copy", "copy-one"):
        make_skill(skills_root, name, description="Paints fences in bright colours.")
    (collision,) = find_collisions(Catalog.discover(roots=[skills_root]).all())
    assert "remove one" in collision.advice


def test_skills_that_share_only_common_words_do_not_collide(skills_root: Path, make_skill: Any) -> None:
    for topic in ("violins", "tractors", "glaciers", "parliament", "sourdough"):
        make_skill(skills_root, topic, description=f"Helps with {topic}. Use when someone asks about {topic}.")
    assert find_collisions(Catalog.discover(roots=[skills_root]).all()) == []


def test_a_disabled_skill_collides_with_nothing(twins: Catalog) -> None:
    assert find_collisions(twins.with_permissions({"pull-review": "deny"}).all()) == []
