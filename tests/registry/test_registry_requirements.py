"""What a skill requires is read in every form people write it, held against this machine, and circles are named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import parse_document
from skillyard.environments import Requirements, read_requirements
from skillyard.registry import Registry
from skillyard.registry.requirements import RequirementContext, cycles, parse_requirement, skill_names, unmet_requirements


def _read(header: str) -> Requirements:
    return read_requirements(parse_document(f"---\nname: x\ndescription: d\n{header}---\n".encode()))


def test_our_own_words() -> None:
    found = _read(
        "requires:\n  bins: [git, jq]\n  any_bins: [docker, podman]\n  env: TOKEN\n  python: '>=3.11'\n"
        "  packages: ['openpyxl>=3.1']\n  mcp_servers: [tickets]\n  skills: ['pdf@^1.2', {name: docx, version: '2'}]\n"
    )
    assert found == Requirements(
        bins=("git", "jq"), any_bins=("docker", "podman"), env=("TOKEN",), python=(">=3.11",),
        packages=("openpyxl>=3.1",), mcp_servers=("tickets",), skills=("pdf@^1.2", "docx@2"),
    )  # fmt: skip
    assert skill_names(found) == ("pdf", "docx")
    assert found.to_dict()["bins"] == ["git", "jq"]


@pytest.mark.parametrize("name", ["openclaw", "clawdbot", "clawdis"])
def test_the_words_of_other_clients(name: str) -> None:
    block = _read(f"metadata:\n  {name}:\n    requires:\n      bins: [curl]\n      anyBins: [a, b]\n      env: [KEY]\n")
    assert block == Requirements(bins=("curl",), any_bins=("a", "b"), env=("KEY",))
    more = '"envVars": [{"name": "A"}, {"name": "B", "required": false}]'
    line = _read('metadata: {"NAME": {"requires": {"bins": ["gemini"]}, MORE}}\n'.replace("NAME", name).replace("MORE", more))
    assert line == Requirements(bins=("gemini",), env=("A",))
    assert _read(f'metadata:\n  {name}: \'{{"requires": {{"bins": ["uv"]}}}}\'\n') == Requirements(bins=("uv",))


def test_the_older_words_binaries_and_env_vars() -> None:
    assert _read("requires: {binaries: [git], env_vars: [A], python: '3.12'}\n") == Requirements(
        bins=("git",), env=("A",), python=("3.12",)
    )


@pytest.mark.parametrize(
    "header", ["requires: nonsense\n", "requires: [1, 2]\n", "requires: {bins: {a: b}}\n", "metadata: text\n", ""]
)
def test_nonsense_requires_nothing(header: str) -> None:
    assert _read(header) == Requirements()


def test_everything_that_is_missing_is_reported_with_its_way_out() -> None:
    around = RequirementContext({"pdf": "1.4.0"}, frozenset({"tickets"}), {"PATH": "/usr/bin:/bin", "HAVE": "1", "EMPTY": ""})
    assert (
        unmet_requirements(Requirements(bins=("sh",), env=("HAVE",), mcp_servers=("tickets",), skills=("pdf@^1.2",)), around)
        == ()
    )
    assert unmet_requirements(Requirements(any_bins=("nosuch", "sh"), any_skills=("other", "pdf")), around) == ()
    missing = unmet_requirements(
        Requirements(
            bins=("nosuch",), any_bins=("no1", "no2"), env=("EMPTY",), mcp_servers=("crm",), skills=("pdf>=2",),
            python=("<3",), packages=("nosuchpackage", "sqlalchemy<1", "sqlalchemy>=2"),
        ),
        around,
    )  # fmt: skip
    assert missing[:5] == (
        "the program nosuch is missing: install it",
        "the program no1 or no2 is missing: install it",
        "the variable EMPTY is missing: set it",
        "the MCP server crm is missing: register it in [servers]",
        "the skill pdf>=2 is missing: 1.4.0 is here, install another version",
    )
    assert missing[5].startswith("Python <3 is required")
    assert len(missing) == 6  # packages come by a grant: `skillyard environment` tells of them


@pytest.mark.parametrize(
    ("wanted", "version", "holds"),
    [
        ("a", "0.0.1", True),
        ("a@*", "7", True),
        ("a@^1.2.0", "1.9.9", True),
        ("a@^1.2.0", "2.0.0", False),
        ("a@^1.2.0", "2.0.0-beta", False),
        ("a@^0.2.3", "0.2.9", True),
        ("a@^0.2.3", "0.3.0", False),
        ("a@~1.2.3", "1.2.9", True),
        ("a@~1.2.3", "1.3.0", False),
        ("a~=1.4", "1.9", True),
        ("a~=1.4", "2.0", False),
        ("a>=1,<2", "1.5", True),
        ("a >=1 <2", "2.0", False),
        ("a@1.0", "1.0.0", True),
        ("a==1.2.*", "1.2.7", True),
        ("a!=1.2", "1.2.0", False),
        ("a>=1.0.0", "1.0.0-rc.1", False),
        ("a>1.10.0", "1.9.0", False),
        ("a[extra]>=2; python_version > '3'", "2.1", True),
        ("a@nonsense", "1.0", False),
    ],
)
@pytest.mark.row("002-16")
def test_ranges(wanted: str, version: str, holds: bool) -> None:
    assert parse_requirement(wanted).name == "a"
    assert parse_requirement(wanted).holds(version) is holds


@given(st.text(max_size=60), st.text(max_size=30))
def test_no_text_breaks_a_range(wanted: str, version: str) -> None:
    assert parse_requirement(wanted).holds(version) in (True, False)


@given(st.tuples(*[st.integers(0, 50)] * 3), st.tuples(*[st.integers(0, 50)] * 3))
def test_bounds_agree_with_the_order_of_numbers(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    left, right = ".".join(map(str, one)), ".".join(map(str, other))
    assert parse_requirement(f"a>={right}").holds(left) is (one >= other)
    assert parse_requirement(f"a<{right}").holds(left) is (one < other)
    assert parse_requirement(f"a@^{left}").holds(left)


def test_circles_are_named_with_their_path() -> None:
    assert cycles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == (("a", "b", "c", "a"),)
    assert cycles({"a": ["a"], "b": ["c"], "c": ["b"]}) == (("a", "a"), ("b", "c", "b"))
    assert cycles({"a": ["b", "c"], "b": ["c"], "c": []}) == ()
    assert cycles({"a": ["unknown"]}) == ()


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4), max_size=6))
def test_every_circle_is_one_and_a_graph_without_any_can_be_sorted(needs: dict[str, list[str]]) -> None:
    found = cycles(needs)
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(after in needs[before] for before, after in itertools.pairwise(circle))
    left = {name: set(need) & needs.keys() for name, need in needs.items()}
    while free := [name for name, need in left.items() if not need]:
        left = {name: need.difference(free) for name, need in left.items() if name not in free}
    assert bool(left) == bool(found)


def test_an_install_tells_what_is_missing_and_circles(any_registry: Registry, write: Any) -> None:
    one = any_registry.install(str(write("one", header="requires: {bins: [nosuch], skills: [two]}\n"))).results[0]
    assert one.status == "installed"
    assert one.unmet == ("the program nosuch is missing: install it", "the skill two is missing: install it")
    two = any_registry.install(str(write("two", header="requires: {skills: [one]}\n")), dependencies=False).results[0]
    assert two.unmet == ("skills require each other in a cycle: one → two → one",)
    assert list(any_registry.installed.problems()) == [
        ("one", "the program nosuch is missing: install it"),
        ("one", "skills require each other in a cycle: one → two → one"),
    ]
