"""Lines in common: a diff that can be applied, whatever the texts, in a bounded number of steps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.packages import compare_trees, tree_diff
from skillyard.packages.tree_diff import unified_diff

_LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "one", "two", "three"]), max_size=40)


def applied(old: list[str], marked: list[str]) -> list[str]:
    """What a unified diff makes of the old text, by its own words."""
    result, place = [], 0
    for line in marked[2:]:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) - (length != "0")
            result += old[place:begin]
            place = begin
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[place] == line[1:]
            result += [line[1:]] if line[0] == " " else []
            place += 1
    return result + old[place:]


@given(old=_LINES, new=_LINES, steps=st.sampled_from([0, 20, 400_000]))
def test_a_diff_makes_one_text_of_the_other(old: list[str], new: list[str], steps: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_diff, "_STEPS", steps)
        marked = list(unified_diff(old, new, "a/f", "b/f"))
    assert marked[:2] == ["--- a/f", "+++ b/f"]
    assert applied(old, marked) == new


def test_patch_takes_a_diff(tmp_path: Path) -> None:
    old = [f"line {number % 7}" for number in range(200)]
    new = [*old[:20], "more", *old[25:150], *old[160:], "end"]
    (tmp_path / "f").write_text("\n".join(old) + "\n")
    marked = "\n".join(unified_diff(old, new, "a/f", "b/f")) + "\n"
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=marked, text=True, check=True)
    assert (tmp_path / "f").read_text() == "\n".join(new) + "\n"


def test_a_small_change_is_reported_small() -> None:
    old = [f"line {number}" for number in range(1_000)]
    new = [*old[:500], "another", *old[501:]]
    marked = list(unified_diff(old, new, "a", "b"))
    assert [line for line in marked[2:] if line[0] in "+-"] == ["-line 500", "+another"]
    assert len(marked) == 2 + 1 + 6 + 2


@pytest.mark.abuse("F30")
@pytest.mark.parametrize("kind", ["two lines", "reversed", "mixed", "all others", "shifted"])
def test_the_steps_for_a_hostile_file_are_bounded(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 4_900
    ab = ["ab"[number * number % 7 % 2] for number in range(count)]
    texts = {
        "two lines": (ab, ab[::-1]),
        "reversed": ([str(n) for n in range(count)], [str(n) for n in range(count)][::-1]),
        "mixed": ([str(n * 31 % 120) for n in range(count)], [str(n * n % 119) for n in range(count)]),
        "all others": (["a"] * count, ["b"] * count),
        "shifted": (["a", "b"] * (count // 2), ["b", "a", "a"] * (count // 3)),
    }
    old, new = texts[kind]
    matching = tree_diff._LineMatcher(old, new)
    pairs = matching.pairs()
    assert all(old[a] == new[b] for a, b in pairs)
    assert pairs == sorted(pairs)
    assert matching._left > -3 * count  # a round may end after the last step that it had
    for name, lines in (("before", old), ("after", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("\n".join(lines))
    (only,) = compare_trees(tmp_path / "before", tmp_path / "after").files
    assert only.lines
