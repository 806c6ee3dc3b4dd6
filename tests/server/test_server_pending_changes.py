"""Changes add up to what is different since somebody last asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillyard.server.background.catalog_changes import PendingChanges


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), max_size=8), st.integers(0, 8))
def test_looks_in_between_change_nothing_about_what_came_and_went(states: list[dict[str, int]], asked: int) -> None:
    noticed, before, told_at = PendingChanges(), dict[str, int](), dict[str, int]()
    for at, now in enumerate(states):
        changed = {name for name in before.keys() & now.keys() if before[name] != now[name]}
        noticed.add(now.keys() - before.keys(), changed, before.keys() - now.keys())
        before = now
        if at == asked:
            noticed.take()
            told_at = now
    reported = noticed.take()
    assert reported["added"] == sorted(before.keys() - told_at.keys())
    assert reported["removed"] == sorted(told_at.keys() - before.keys())
    assert set(reported["changed"]) <= before.keys() & told_at.keys()
    assert {name for name in before.keys() & told_at.keys() if before[name] != told_at[name]} <= set(reported["changed"])
    assert noticed.take() == {"added": [], "changed": [], "removed": []}
