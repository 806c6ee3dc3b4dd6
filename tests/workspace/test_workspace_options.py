"""The table `[workspace]`: what it may say, and what is said about what it may not."""

from __future__ import annotations

import pytest

from skillyard.errors import InvalidConfiguration
from skillyard.workspace import options_from_settings, workspaces_in_conversations


def test_a_table_is_read_into_options():
    options = options_from_settings({"quota-mb": 5, "idle-seconds": 60, "backend": "bwrap", "memory-mb": 512})
    assert (options.quota_mb, options.idle_seconds, options.backend, options.policy.memory_mb) == (5, 60, "bwrap", 512)
    assert options.fixed == {"memory_mb"}
    assert workspaces_in_conversations({}) and not workspaces_in_conversations({"conversations": False})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quota": 5}, r"workspace\.quota must be one of quota-mb, "),
        ({"answer-characters": 10}, r"workspace\.answer-characters must be a number from 1,000 to 1,000,000, not 10"),
        ({"backend": 3}, r"workspace\.backend must be a name, not 3"),
        ({"writable": ".vscode"}, r"workspace\.writable must be a list of names"),
        ({"conversations": "no"}, r"workspace\.conversations must be true or false, not 'no'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_must_be(settings: dict[str, object], message: str):
    with pytest.raises(InvalidConfiguration, match=message) as refused:
        options_from_settings(settings)
    assert refused.value.hint
