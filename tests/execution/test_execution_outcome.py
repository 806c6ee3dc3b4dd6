"""What a skill answers is read field by field; what is wrong is dropped with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.execution import infer_format, read_outcome
from skillyard.execution.run import new_run_id, read_memory_writes, read_steps

GOOD = {"ownerType": "user", "ownerId": "u1", "type": "preference", "importance": 3, "content": "tea", "metadata": {"k": 1}}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
named = st.dictionaries(
    st.sampled_from(["ownerType", "ownerId", "type", "importance", "content", "metadata", "stepId", "duration", "name"]),
    anything,
)


@pytest.mark.row("000-37", "D-19")
@pytest.mark.parametrize(
    ("value", "output", "failed"),
    [
        ({"output": 1}, 1, False),
        ({"output": 1, "status": "success"}, 1, False),
        ({"status": "error", "message": "m"}, None, True),
        ({"status": "error", "error": {"message": "m"}}, None, True),
        ({"output": 1, "other": 2}, {"output": 1, "other": 2}, False),  # data that happens to have an output
        ({"status": "shipped"}, {"status": "shipped"}, False),
        ({"message": "hello"}, {"message": "hello"}, False),
        ({}, {}, False),
        ([1], [1], False),
        (None, None, False),
    ],
)
def test_an_outcome_is_told_from_plain_data(value: object, output: object, failed: bool) -> None:
    outcome = read_outcome(value)
    assert (outcome.output, outcome.failed) == (output, failed)
    assert outcome.message == ("m" if failed else None)


@pytest.mark.row("000-37")
@pytest.mark.parametrize(
    ("written", "read"),
    [
        (120, 120), (0, 0), (1.5, 1.5), ({"input": 90, "output": 30}, {"input": 90, "output": 30}),
        ("many", None), (True, None), (-1, None), (float("nan"), None), ([1], None), (None, None),
    ],
)  # fmt: skip
def test_token_usage_is_a_number_or_numbers_by_kind(written: object, read: object) -> None:
    assert read_outcome({"output": 1, "tokenUsage": written}).token_usage == read
    assert read_outcome({"output": 1, "token_usage": written}).token_usage == read


@pytest.mark.row("000-37")
@pytest.mark.parametrize(("status", "failed"), [("success", False), ("error", True)])
def test_an_outcome_has_one_of_two_statuses(status: str, failed: bool) -> None:
    assert read_outcome({"status": status}).failed is failed
    assert read_outcome({"status": "failed"}).output == {"status": "failed"}


@pytest.mark.row("000-39")
def test_the_format_follows_the_value_unless_it_is_declared() -> None:
    assert [infer_format(value) for value in ("x", None, 1, 1.5, True, [], {})] == [
        "text", "void", "primitive", "primitive", "primitive", "object", "object",
    ]  # fmt: skip
    assert read_outcome({"output": "x", "format": "binary"}).format == "binary"
    assert read_outcome({"output": "x", "format": "novel"}).format == "text"


@given(anything)
def test_any_value_is_read(value: object) -> None:
    outcome = read_outcome(value)
    assert outcome.format in ("object", "text", "binary", "void", "primitive")


@pytest.mark.row("000-41", "000-43", "C-7")
def test_a_good_suggestion_is_kept_with_both_importances() -> None:
    (write,), warnings = read_memory_writes([GOOD], protocol="vcp", context={"userId": "u1"})
    assert (write.importance, write.normalized_importance, dict(write.metadata)) == (3, 0.6, {"k": 1})
    assert warnings == ()
    assert write.to_dict()["ownerType"] == "user"


@pytest.mark.row("000-43")
@pytest.mark.parametrize(
    "change",
    [
        {"ownerType": "world"}, {"ownerType": None}, {"ownerId": ""}, {"ownerId": 7}, {"type": "dream"}, {"importance": 0},
        {"importance": 6}, {"importance": "3"}, {"importance": True}, {"importance": float("nan")}, {"importance": 0.5},
        {"content": " "}, {"content": None}, {"metadata": "text"}, {"ownerId": "someone"},
    ],
)  # fmt: skip
def test_a_bad_suggestion_is_dropped_with_its_reason_and_spoils_no_other(change: dict[str, object]) -> None:
    writes, (warning,) = read_memory_writes([GOOD, GOOD | change, GOOD], protocol="vcp", context={"userId": "u1"})
    assert len(writes) == 2
    assert warning.startswith("memoryWrites[1] was dropped: ")


@pytest.mark.row("C-7")
def test_the_scale_follows_the_protocol_and_never_the_number() -> None:
    for protocol, importance, normalized in (("vcp", 1, 0.2), ("vcp", 5, 1), ("abp", 1, 1), ("abp", 0.25, 0.25)):
        ((write,), _) = read_memory_writes([GOOD | {"importance": importance}], protocol=protocol, context={})
        assert write.normalized_importance == normalized
    assert read_memory_writes([GOOD | {"importance": 3}], protocol="abp", context={})[0] == ()


@pytest.mark.row("C-7", "000-41")
def test_an_abp_suggestion_without_owner_belongs_to_the_user_of_the_run() -> None:
    item = {"type": "fact", "importance": 0.5, "content": "c"}
    ((write,), _) = read_memory_writes([item], protocol="abp", context={"userId": "u9"})
    assert (write.owner_type, write.owner_id) == ("user", "u9")
    assert read_memory_writes([item], protocol="abp", context={})[0] == ()
    assert read_memory_writes([item], protocol="vcp", context={"userId": "u9"})[0] == ()


@given(st.lists(named | anything), st.sampled_from(["vcp", "abp"]))
def test_any_suggestion_is_kept_or_dropped_with_a_reason(items: list[object], protocol: str) -> None:
    writes, warnings = read_memory_writes(items, protocol=protocol, context={"userId": "u1"})
    assert len(writes) + len(warnings) == len(items)


@pytest.mark.row("000-45")
def test_steps_are_read_in_the_documents_and_in_pythons_spelling() -> None:
    steps, warnings = read_steps(
        [
            {"stepId": "a", "stepName": "read", "input": 1, "output": 2, "duration": 900, "timestamp": 5},
            {"step_id": "b", "step_name": "write", "duration": 200, "error": "disk full"},
            "no step",
            {"duration": "long"},
        ]
    )
    assert [step.step_name for step in steps] == ["read", "write", "step-4"]
    assert steps[0].to_dict()["timestamp"] == 5
    assert "timestamp" not in steps[1].to_dict()
    assert read_steps([{"stepId": "a", "error": ""}])[0][0].to_dict()["error"] == ""
    assert steps[2].duration == 0.0
    text = "\n".join(warnings)
    assert "intermediateSteps[2]" in text
    assert "write" in text
    assert "1100 ms" in text


@given(st.lists(named | anything))
def test_any_steps_are_read_and_can_be_written_as_json(items: list[object]) -> None:
    steps, _ = read_steps(items)
    assert all(json.dumps(step.duration) and step.step_name for step in steps)


@pytest.mark.row("000-43", "000-45")
def test_a_number_no_machine_can_count_with_is_dropped() -> None:
    for huge in (10**400, -(10**400), float("inf"), float("nan")):
        ((step,), _) = read_steps([{"duration": huge}])
        assert step.duration == 0.0
        writes, warnings = read_memory_writes([GOOD | {"importance": huge}], protocol="vcp", context={})
        assert (writes, len(warnings)) == ((), 1)


def test_what_is_not_a_list_is_dropped_with_a_warning() -> None:
    assert read_steps("x") == ((), ("intermediateSteps is not a list and was dropped",))
    assert read_memory_writes({}, protocol="vcp", context={})[1] == ("memoryWrites is not a list and was dropped",)
    assert read_steps(None) == read_memory_writes(None, protocol="vcp", context={}) == ((), ())


def test_run_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_run_id() for _ in range(1000)]
    assert ids == sorted(set(ids))
