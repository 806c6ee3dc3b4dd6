"""The names that other protocols have for versions are unique, never change, and rise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from skillyard.registry import SkillVersion
from skillyard.server.clients.published_skills import is_semantic, number_versions

START = datetime(2026, 1, 15, 14, 30, 22, tzinfo=UTC)


def _version(index: int, declared: str | None = None, *, name: str | None = None, published: str = "") -> SkillVersion:
    moment = START + timedelta(seconds=index)
    return SkillVersion(
        skill_id="tidy",
        version=name or moment.strftime("%Y%m%d-%H%M%S"),
        status="active",
        current=False,
        digest="sha256:0",
        size_bytes=1,
        package_path="",
        source_type="archive",
        declared_version=declared,
        origin={"version": published} if published else {},
        installed_at=moment,
        created_at=moment,
    )


def _labels(*versions: SkillVersion) -> list[str]:
    return [one.label for one in reversed(number_versions(list(reversed(versions))))]


def test_a_label_is_what_is_said_else_the_next_number() -> None:
    assert _labels(_version(0), _version(1), _version(2, "1.2.0"), _version(3), _version(4, "1.2.0")) == [
        "0.0.1",
        "0.0.2",
        "1.2.0",
        "1.2.1",
        "1.2.2",
    ]
    assert _labels(_version(0, "1.0.0", published="3.0.0"), _version(1, "v2"), _version(2, "01.2.3")) == [
        "3.0.0",
        "3.0.1",
        "3.0.2",
    ]


def test_a_version_is_a_number_and_a_time_in_microseconds() -> None:
    first, second = number_versions([_version(0, name="20260115-143022-2"), _version(0)])
    assert (second.number, second.epoch) == (1, int(START.timestamp()) * 1_000_000)
    assert (first.number, first.epoch) == (2, second.epoch + 2)
    odd = number_versions([_version(5, name="99999999-999999")])[0]
    assert odd.epoch == int((START + timedelta(seconds=5)).timestamp()) * 1_000_000


def test_an_older_version_that_is_taken_over_later_changes_no_name() -> None:
    known = [_version(0), _version(100)]
    before = {one.version.version: (one.number, one.label) for one in number_versions(known)}
    older = _version(50)
    later = SkillVersion(**{name: getattr(older, name) for name in older.__slots__} | {"created_at": START + timedelta(days=1)})
    after = {one.version.version: (one.number, one.label) for one in number_versions([known[1], later, known[0]])}
    assert before.items() <= after.items()
    assert after[later.version] == (3, "0.0.3")


said = st.one_of(st.none(), st.sampled_from(["1.0.0", "1.0.1", "0.0.2", "2.0.0-rc.1", "latest", "1.0"]), st.text(max_size=12))


@given(st.lists(said, max_size=12))
def test_labels_are_semantic_unique_and_stay(declared: list[str | None]) -> None:
    versions = [_version(index, text) for index, text in enumerate(declared)]
    labels = _labels(*versions)
    assert len(set(labels)) == len(labels)
    assert all(map(is_semantic, labels))
    assert _labels(*versions[:5]) == labels[:5]


def test_only_semantic_versions_are_semantic() -> None:
    for text in ("1.2.3", "0.0.0", "1.0.0-rc.1+build.5", "1.0.0--", "10.20.30"):
        assert is_semantic(text), text
    for text in ("1.2", "01.2.3", "1.2.3-01", "1.2.3\n", "v1.2.3", "1.2.3-", "", "1.2.3+" + "x" * 100, "1.2.٣"):
        assert not is_semantic(text), text
