"""What an operator grants by name: the values enter a run that asks for them, and do not come out of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from pathlib import Path

import pytest

from skillyard.errors import InvalidPolicy
from skillyard.sandbox import Policy, effective_policy, lowered_ceiling, narrowing_warnings

HOST = {"WEATHER_KEY": "wk-5d1f0a99", "OTHER_KEY": "other-value", "AWS_SECRET": "aws-value", "EMPTY": ""}


def granted(environment: dict[str, str], /, **settings: object) -> Policy:
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return effective_policy(Policy.from_security({"environment": environment}), Policy.ceiling(named, environ=HOST))


@pytest.mark.row("000-20", "D-13")
def test_a_run_gets_the_names_that_it_asks_for_and_that_are_granted() -> None:
    policy = granted({"WEATHER_KEY": "", "UNIT": "celsius"}, pass_environment=["WEATHER_KEY", "OTHER_KEY"])
    assert dict(policy.environment) == {"WEATHER_KEY": "wk-5d1f0a99", "UNIT": "celsius"}
    assert policy.secret_values == ("wk-5d1f0a99",)


def test_the_operators_value_wins_over_the_skills_own() -> None:
    policy = granted({"CITY": "Berlin"}, environment={"CITY": "Tokyo-3"})
    assert dict(policy.environment) == {"CITY": "Tokyo-3"}
    assert policy.secret_values == ("Tokyo-3",)


@pytest.mark.parametrize("name", ["WEATHER_KEY", "weather_key", "UNSET", "EMPTY"])
@pytest.mark.abuse("E2")
def test_what_is_not_granted_or_not_set_is_absent_and_said(name: str) -> None:
    names = ["UNSET", "EMPTY", "OTHER_KEY"]
    asked = Policy.from_security({"environment": {name: ""}})
    policy = effective_policy(asked, Policy.ceiling({"pass-environment": names}, environ=HOST))
    assert dict(policy.environment) == {}
    assert any(name in sentence for sentence in narrowing_warnings(asked, policy))


def test_a_granted_name_without_a_value_does_not_fall_back_to_the_skills_word() -> None:
    assert dict(granted({"UNSET": "made up"}, pass_environment=["UNSET"]).environment) == {}


@pytest.mark.parametrize(
    "settings",
    [
        {"pass-environment": ["AWS_*"]}, {"pass-environment": ["LD_PRELOAD"]}, {"pass-environment": ["PYTHONPATH"]},
        {"pass-environment": ["HTTPS_PROXY"]}, {"pass-environment": "WEATHER_KEY"}, {"pass-environment": [1]},
        {"environment": {"NODE_OPTIONS": "--inspect"}}, {"environment": {"UNIT": 1}}, {"environment": ["UNIT"]},
    ],
)  # fmt: skip
@pytest.mark.abuse("E2", "E3")
def test_patterns_and_names_that_steer_programs_cannot_be_granted(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy):
        Policy.ceiling(settings, environ=HOST)


@pytest.mark.row("D-13")
@pytest.mark.parametrize(
    "settings",
    [
        {"pass-environment": ["AWS_SECRET"]},
        {"environment": {"UNIT": "x"}},
        {"private-networks": True},
        {"private_networks": True},
    ],
)
@pytest.mark.abuse("D21")
def test_a_project_cannot_give_itself_its_users_secrets_or_network(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy, match="a project cannot decide"):
        lowered_ceiling(Policy.ceiling(environ=HOST), settings)


def test_a_project_lowers_a_ceiling_and_leaves_what_its_user_granted() -> None:
    own = {"pass-environment": ["WEATHER_KEY", "UNSET"], "private-networks": True, "network-allowlist": ["wiki.corp", "a.test"]}
    ceiling = Policy.ceiling(own, environ=HOST)
    low = lowered_ceiling(ceiling, {"memory-mb": 32})
    assert (low.memory_mb, low.private_networks, low.network_allowlist) == (32, True, ("wiki.corp", "a.test"))
    assert low.environment == ceiling.environment
    assert low.secrets == {"WEATHER_KEY", "UNSET"}
    assert lowered_ceiling(ceiling, {"network-allowlist": ["a.test", "10.0.0.1"]}).network_allowlist == ("a.test",)
    assert lowered_ceiling(Policy.ceiling(), {"network-allowlist": ["a.test"]}).network_allowlist == ("a.test",)
    assert lowered_ceiling(ceiling, {"network": "none"}).network == "none"


def test_no_message_and_no_picture_of_a_policy_shows_a_value() -> None:
    policy = granted({"WEATHER_KEY": ""}, pass_environment=["WEATHER_KEY"])
    assert "wk-5d1f0a99" not in repr(policy)
    with pytest.raises(InvalidPolicy) as caught:
        Policy.ceiling({"pass-environment": ["BIG"]}, environ={"BIG": "wk-5d1f0a99" * 10_000})
    assert "wk-5d1f0a99" not in str(caught.value.to_dict())


@pytest.mark.row("000-20", "D-13")
@pytest.mark.abuse("E4", "E5")
async def test_a_granted_value_does_not_come_back_and_is_on_no_command_line(run_script) -> None:
    seen: list[bytes] = []

    async def look() -> None:
        while True:
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    with contextlib.suppress(OSError):
                        seen.append((folder / "cmdline").read_bytes())
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    result = await run_script(
        """
        import base64
        value = os.environ["WEATHER_KEY"]
        print(value, base64.b64encode(value.encode()).decode(), flush=True)
        for character in value:
            os.write(2, character.encode())
        time.sleep(0.1)
        answer({"value": value, "names": sorted(os.environ)})
        """,
        policy=granted({"WEATHER_KEY": ""}, pass_environment=["WEATHER_KEY", "OTHER_KEY"]),
    )
    looking.cancel()
    assert result.status == "ok", result.stderr
    assert result.value["value"] == "[redacted]"
    assert "WEATHER_KEY" in result.value["names"]
    assert "OTHER_KEY" not in result.value["names"]
    everything = str(result)
    assert "wk-5d1f0a99" not in everything
    assert base64.b64encode(b"wk-5d1f0a99").decode() not in everything
    assert not any(b"wk-5d1f0a99" in line for line in seen)
