"""What two components write down, because one may not or must not import the other, is the same in both."""

from __future__ import annotations

from typing import get_args

from skillyard.catalog import configuration
from skillyard.document import PROFILES, Kind, metadata
from skillyard.document.spelling import KINDS
from skillyard.permissions import ALWAYS_PERMITTED
from skillyard.sandbox import policy
from skillyard.tools import skill_tools


def test_a_configuration_knows_every_profile() -> None:
    assert get_args(configuration._Profile) == PROFILES


def test_the_quick_reader_knows_every_kind() -> None:
    assert get_args(Kind) == KINDS


def test_a_skill_may_ask_for_what_a_policy_can_say() -> None:
    assert get_args(metadata.Network) == get_args(policy.Network)
    assert get_args(metadata.Filesystem) == get_args(policy.Filesystem)


def test_no_limit_takes_away_the_tools_that_find_load_and_read_skills() -> None:
    assert ALWAYS_PERMITTED | {"run_skill"} == skill_tools.TOOLS.keys()
