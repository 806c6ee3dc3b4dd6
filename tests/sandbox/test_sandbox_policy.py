"""What a skill may ask for, what an operator may allow, and the smaller of the two."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import parse_document
from skillyard.errors import InvalidPolicy
from skillyard.sandbox import Policy, effective_policy, lowered_ceiling, narrowing_warnings
from skillyard.sandbox.policy import RANGES


@pytest.mark.row("000-20")
def test_a_skill_that_declares_nothing_gets_no_network_a_read_only_folder_and_no_variables() -> None:
    policy = Policy.from_security({})
    assert (policy.network, policy.filesystem, dict(policy.environment)) == ("none", "read-only", {})
    assert (policy.timeout_ms, policy.memory_mb) == (30_000, 256)


@pytest.mark.row("000-20")
def test_every_field_of_a_security_block_is_read_in_both_spellings() -> None:
    declared = Policy.from_security(
        {
            "timeoutMs": 5000,
            "memoryMb": 128,
            "network": "allowlist",
            "networkAllowlist": ["api.example.com", "https://*.example.org"],
            "filesystem": "read-write",
            "environment": {"UNIT": "celsius", "COUNT": 3},
        }
    )
    assert (declared.timeout_ms, declared.memory_mb, declared.filesystem) == (5000, 128, "read-write")
    assert declared.network_allowlist == ("api.example.com", "https://*.example.org")
    assert dict(declared.environment) == {"UNIT": "celsius"}  # what is not text is dropped


def test_an_object_with_the_blocks_fields_is_read_like_a_mapping() -> None:
    block = SimpleNamespace(timeout_ms=10, memory_mb=None, network=None, network_allowlist=(), filesystem=None, environment={})
    assert Policy.from_security(block) == Policy(timeout_ms=10)


@pytest.mark.row("C-17")
def test_the_older_word_read_means_read_only() -> None:
    assert Policy.from_security({"filesystem": "read"}).filesystem == "read-only"


@pytest.mark.row("000-20")
@pytest.mark.abuse("D18", "G17")
def test_an_allow_list_without_hosts_is_no_network() -> None:
    assert Policy.from_security({"network": "allowlist"}).network == "none"


@pytest.mark.parametrize("name", ["timeout_ms", "memory_mb"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 10**18, "5", True, 1.5])
@pytest.mark.abuse("C9", "G17")
def test_numbers_out_of_range_or_of_another_kind_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidPolicy, match=name):
        Policy.from_security({name: value})


@pytest.mark.parametrize(
    "block",
    [
        {"network": "all"},
        {"network": ["none", "allowlist"]},
        {"filesystem": "full"},
        {"network": "allowlist", "network_allowlist": "example.com"},
        {"network": "allowlist", "network_allowlist": [1]},
        {"sandbox": "off"},
        {"allow_unsandboxed": True},
    ],
)
@pytest.mark.abuse("G17")
def test_unknown_fields_and_words_are_refused(block: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy):
        Policy.from_security(block)


@pytest.mark.parametrize(
    "host",
    [
        "*", "*.com", "https://example.com/path", "user@example.com", "evil\0.example.com", "example.com\r\nHost: x", "a b",
        "127.1", "0x7f000001", "2130706433", "017700000001", "example.com:0", "example.com:99999", "", "ftp://example.com",
    ],
)  # fmt: skip
@pytest.mark.abuse("D10", "D12", "D18")
def test_hosts_that_cannot_be_enforced_are_refused(host: str) -> None:
    with pytest.raises(InvalidPolicy):
        Policy.from_security({"network": "allowlist", "network_allowlist": [host]})


@pytest.mark.parametrize("setting", ["hidden-files", "private-networks", "memory-mb", "file-size-mb"])
def test_a_setting_that_is_wrong_is_named_as_it_is_written_and_not_laid_to_a_skill(setting: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy.ceiling({setting: "x"})
    assert caught.value.message.startswith(f"{setting} must be ")
    assert caught.value.hint is not None
    assert "[sandbox]" in caught.value.hint
    assert "security" not in caught.value.hint


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy(timeout_ms=0, memory_mb=0, environment={"LD_PRELOAD": "x"})
    assert len(caught.value.details["problems"]) == 3


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "ld_preload", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS", "PS4", "HTTPS_PROXY", "https_proxy",
        "GIT_SSH_COMMAND", "SSH_AUTH_SOCK", "PATH", "HOME", "AWS_*", "A-B", "", "SKILL_RESULT_FD", "BASH_FUNC_x", "DOCKER_HOST",
    ],
)  # fmt: skip
@pytest.mark.abuse("E2", "E3")
def test_variables_that_steer_programs_are_refused(name: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy(environment={name: "the-value-itself"})
    assert "the-value-itself" not in caught.value.message


def test_a_variable_with_nul_or_of_great_length_is_refused() -> None:
    for value in ("a\0b", "x" * 40_000):
        with pytest.raises(InvalidPolicy):
            Policy(environment={"VALUE": value})
    with pytest.raises(InvalidPolicy, match="in all"):
        Policy(environment={f"V{number}": "x" * 10_000 for number in range(9)})


def policies() -> st.SearchStrategy[Policy]:
    hosts = st.sets(st.sampled_from(["a.example.com", "b.example.com", "*.example.com"])).map(
        lambda names: tuple(sorted(names))
    )
    numbers = {name: st.integers(low, high) for name, (low, high) in RANGES.items()}
    return st.builds(
        Policy,
        network=st.sampled_from(["none", "allowlist"]),
        network_allowlist=hosts,
        filesystem=st.sampled_from(["none", "read-only", "read-write"]),
        **numbers,
    )


@given(policies(), policies())
@pytest.mark.abuse("D21")
def test_what_a_run_gets_is_never_more_than_either_side_allows(declared: Policy, ceiling: Policy) -> None:
    granted = effective_policy(declared, ceiling)
    for name in RANGES:  # a skill has no words for the others
        least = min(getattr(declared, name), getattr(ceiling, name))
        assert getattr(granted, name) == (least if name in ("timeout_ms", "memory_mb") else getattr(ceiling, name))
    order = ["none", "read-only", "read-write"]
    assert order.index(granted.filesystem) == min(order.index(declared.filesystem), order.index(ceiling.filesystem))
    assert set(granted.network_allowlist) <= set(declared.network_allowlist)
    assert (granted.network == "allowlist") == bool(granted.network_allowlist)
    assert effective_policy(granted, ceiling) == granted


@pytest.mark.abuse("D11", "D21")
def test_the_ceiling_keeps_only_hosts_it_covers() -> None:
    declared = Policy(network="allowlist", network_allowlist=("api.example.com", "evil.test", "notexample.com"))
    granted = effective_policy(declared, Policy.ceiling({"network-allowlist": ["*.example.com"]}))
    assert granted.network_allowlist == ("api.example.com",)
    assert effective_policy(declared, Policy.ceiling({"network": "none"})).network == "none"


def test_an_operator_may_raise_the_ceiling_and_a_skill_may_only_lower() -> None:
    declared = Policy.from_security({"timeout_ms": 60_000, "memory_mb": 64})
    assert effective_policy(declared, Policy.ceiling()).timeout_ms == 30_000
    granted = effective_policy(declared, Policy.ceiling({"timeout-ms": 90_000, "memory-mb": 1024}))
    assert (granted.timeout_ms, granted.memory_mb) == (60_000, 64)


def test_limits_that_no_skill_declares_are_the_operators_and_a_project_only_lowers_them() -> None:
    named = {
        "timeout-ms": 90_000,
        "tmp-mb": 512,
        "pids": 300,
        "nofile": 1000,
        "file-size-mb": 300,
        "output-bytes": 5 << 20,
        "input-bytes": 20 << 20,
    }
    operators = Policy.ceiling(named)
    granted = effective_policy(Policy.from_security({"timeout_ms": 600_000}), operators)
    assert {name: getattr(granted, name.replace("-", "_")) for name in named} == named
    project = lowered_ceiling(operators, {"tmp-mb": 1000, "pids": 10})
    assert (project.tmp_mb, project.pids, project.nofile, project.timeout_ms) == (512, 10, 1000, 90_000)


def test_what_was_asked_for_and_not_given_is_said() -> None:
    declared = replace(Policy(), timeout_ms=60_000)
    (sentence,) = narrowing_warnings(declared, effective_policy(declared, Policy.ceiling()))
    assert "60000" in sentence
    assert "30000" in sentence


def test_an_unknown_setting_of_an_operator_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="colour"):
        Policy.ceiling({"colour": "red"})


@pytest.mark.parametrize("name", ["timeout_ms", "memory_mb"])
@pytest.mark.parametrize("value", [-1, 0, 1, 15, 16, 65_536, 65_537, 600_000, 600_001, 3_600_000])
def test_what_a_check_accepts_the_sandbox_accepts(name: str, value: int) -> None:
    text = f"---\nname: a\ndescription: Does it. Use when asked.\nsecurity:\n  {name}: {value}\n---\nDo it.\n"
    document = parse_document(text.encode(), directory_name="a")
    low, high = RANGES[name]
    assert [found.rule for found in document.diagnostics] == ([] if low <= value <= high else ["security-invalid"])
    assert getattr(Policy.from_security(document.metadata.security), name) == (
        value if low <= value <= high else getattr(Policy(), name)
    )
