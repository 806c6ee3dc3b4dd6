"""Conversations and the trail in both databases: what is kept comes back, turns have one owner, the trail counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from skillyard.conversations import (
    Attachment,
    ChatSettings,
    Conversation,
    ConversationStore,
    SkillUsageEvent,
    SkillUsageLog,
    Turn,
    TurnFilter,
)
from skillyard.conversations.conversation import (
    EventPosition,
    EventPositioner,
    LiveTurn,
    TurnEvent,
    TurnEventKind,
    condense_events,
    parse_event,
)
from skillyard.database import Database, turns
from skillyard.engine import HeartbeatMonitor, ProcessIdentity
from skillyard.errors import ConversationBusy, RecordNotFound

SETTINGS = ChatSettings("Be brief.", ("pdf",), {"*": "ask"}, ("pdf",), tools=False, temperature=0.5)


ELSEWHERE = f"another-host|boot|space|{2**22 + 1}|1"


@pytest.fixture
def records(database: Database) -> ConversationStore:
    kept = ConversationStore(lambda: database)
    kept.begin(Conversation("chat_1", "ada", "Forms \x00 \ud800", None, "openai:gpt-5", SETTINGS, {"known": {"a": "b"}}))
    return kept


def _turn(number: int, **values: object) -> Turn:
    return Turn(f"turn_{number}", "chat_1", 0, "running", f"request {number}", **values)  # type: ignore[arg-type]


def _put(database: Database, **values: object) -> None:
    with database.write() as connection:
        connection.execute(update(turns).values(values))


def test_a_conversation_comes_back_as_it_was(records: ConversationStore) -> None:
    found = records.get("chat_1", "ada")
    assert (found.settings, found.memory, found.model) == (SETTINGS, {"known": {"a": "b"}}, "openai:gpt-5")
    assert found.title.startswith("Forms \ufffd \ufffd")
    records.change("chat_1", title="New", memory={"x": [1]})
    assert [(it.title, it.memory) for it in records.list("ada")] == [("New", {"x": [1]})]
    with pytest.raises(RecordNotFound):
        records.get("chat_1", "eve")


def test_a_conversation_has_one_open_turn_and_a_turn_that_ended_is_never_changed(records: ConversationStore) -> None:
    first = records.start(_turn(1))
    with pytest.raises(ConversationBusy):
        records.start(_turn(2))
    odd = [{"a": "\x00 \ud800 \U0001f600"}]
    assert not records.note(first.id, messages=odd, usage={"requests": 1})
    assert records.turn(first.id).messages == odd
    records.note(first.id, state="done", answer="yes", finished_at=datetime.now(UTC))
    records.note(first.id, state="failed", answer="no")
    assert (records.turn(first.id).state, records.turn(first.id).answer) == ("done", "yes")
    assert records.start(_turn(2)).number == 2


def test_of_many_who_begin_a_turn_at_once_one_does(records: ConversationStore) -> None:
    def begin(number: int) -> str:
        try:
            return records.start(_turn(number)).state
        except ConversationBusy:
            return "busy"

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(begin, range(6))) == ["busy"] * 5 + ["running"]


def test_a_waiting_turn_is_taken_up_by_one_only(records: ConversationStore) -> None:
    turn = records.start(_turn(1))
    assert not records.resume(turn.id)
    asked = {call: {"digest": digest} for call, digest in (("a", "1"), ("b", "2"), ("c", "1"))}
    records.note(turn.id, state="waiting", pending={"questions": asked, "decided": {}})
    assert records.decide(turn.id, "nosuch", {"decision": "once"}) is None
    pending = records.decide(turn.id, "a", {"decision": "once"})
    assert pending is not None
    assert sorted(pending["decided"]) == ["a", "c"]  # the same content
    with ThreadPoolExecutor(4) as pool:  # answers through several processes: none is lost
        pool.map(lambda call: records.decide(turn.id, call, {"decision": "reject"}), ("a", "b", "a", "b"))
    pending = records.turn(turn.id).pending
    assert pending is not None
    assert {call: it["decision"] for call, it in pending["decided"].items()} == dict.fromkeys("abc", "reject")
    assert [records.resume(turn.id), records.resume(turn.id)] == [True, False]
    assert records.decide(turn.id, "a", {"decision": "once"}) is None


def test_what_a_turn_tells_elsewhere_stays_when_its_process_is_killed(records: ConversationStore, database: Database) -> None:
    turn = records.start(_turn(1))
    records.publish_events(turn.id, [{"event": "begin", "turn": turn.id}, {"event": "text", "delta": "Once "}])
    records.publish_events(turn.id, [{"event": "text", "delta": "upon"}])
    state, news = records.events_since(turn.id, 1)
    assert (state, [item.body for item in news]) == ("running", [[{"event": "text", "delta": "upon"}]])
    gone = replace(ProcessIdentity.current(), pid=2**22 + 1)
    with database.write() as connection:
        connection.execute(update(turns).values(process=str(gone)))
    (found,) = records.turns(turn.conversation_id)
    assert (found.state, found.events) == ("interrupted", [{"event": "text", "delta": "Once upon"}])
    assert records.events_since(turn.id, 0) == ("interrupted", ())


@given(st.lists(st.sampled_from(["text", "usage", "call", "notice"]), max_size=12), st.integers(0, 13))
def test_a_place_means_the_same_while_a_turn_goes_on_and_when_it_is_over(kinds: list[TurnEventKind], at: int) -> None:
    """Who was told the first events as they came is told the rest from what is kept, with no word missing or twice."""
    events = [TurnEvent(kind, {"delta": f"{n} "} if kind == "text" else {"n": n}) for n, kind in enumerate(kinds)]
    first, reported = EventPositioner(), []
    for event in events[:at]:
        found = first.take(event)
        assert found is not None
        reported.append(found[1])
    kept, later = condense_events(events), EventPositioner(first.position)
    reported += [found[1] for shape in kept if (found := later.take(parse_event(shape))) is not None]
    assert condense_events(reported) == kept
    assert EventPosition.read(str(first.position)) == first.position


async def test_a_turn_that_ends_publishes_the_rest_at_once() -> None:
    published: list[object] = []
    live = LiveTurn(publish=published.append, gather_s=3_600)
    await live.show(TurnEvent("text", {"delta": "Once "}))
    await live.show(TurnEvent("text", {"delta": "upon"}))
    await live.settled()  # before the publishing has begun
    await live.show(TurnEvent("end", {"state": "done", "answer": "Once upon"}))
    assert published == [[{"event": "text", "delta": "Once upon"}]]


def test_stopping_asks_who_works_and_ends_what_waits(records: ConversationStore) -> None:
    turn = records.start(_turn(1))
    assert records.ask_to_stop(turn.id)
    assert records.stop_asked(turn.id)
    assert records.note(turn.id, answer="so far")
    records.note(turn.id, state="waiting")
    assert records.ask_to_stop(turn.id)
    assert records.turn(turn.id).state == "stopped"
    assert not records.ask_to_stop(turn.id)


def test_a_conversation_goes_on_a_minute_after_its_machine_was_killed(records: ConversationStore, database: Database) -> None:
    seconds, timing = [1000.0], database.timing
    watching = ConversationStore(lambda: database, heartbeats=HeartbeatMonitor(lambda: seconds[0]))
    turn = records.start(_turn(1))
    _put(database, process=ELSEWHERE)
    assert [it.state for it in watching.turns("chat_1")] == ["running"]
    _put(database, seen_at=datetime.now(UTC) - timedelta(seconds=2 * timing.silence_s))
    with pytest.raises(ConversationBusy):
        watching.start(_turn(2))  # the clock of the database may have been set: another heartbeat would come
    seconds[0] += timing.heartbeat_s
    _put(database, seen_at=datetime.now(UTC) - timedelta(seconds=1.9 * timing.silence_s))
    assert [it.state for it in watching.turns("chat_1")] == ["running"], "it came, by that other clock"
    seconds[0] += 2 * timing.heartbeat_s
    assert watching.start(_turn(2), replacing=turn.number).number == 2
    found = watching.turn(turn.id)
    assert (found.state, found.error_code) == ("interrupted", "interrupted")
    assert records.note(turn.id, answer="late")  # its process is told to stop, should it go on after all


def test_a_turn_whose_process_sends_heartbeats_stays_and_one_of_an_older_release_is_given_hours(
    records: ConversationStore, database: Database
) -> None:
    seconds, timing = [1000.0], database.timing
    watching = ConversationStore(lambda: database, heartbeats=HeartbeatMonitor(lambda: seconds[0]))
    turn = records.start(_turn(1))
    _put(database, seen_at=datetime(2026, 1, 1, tzinfo=UTC))
    records.heartbeat(turn.id)
    _put(database, process=ELSEWHERE)
    for _ in range(3):
        assert [it.state for it in watching.turns("chat_1")] == ["running"]
        seconds[0] += timing.silence_s
        _put(database, seen_at=datetime.now(UTC) + timedelta(seconds=seconds[0]))  # by another clock
    _put(database, seen_at=None)
    seconds[0] += 2 * timing.silence_s
    assert [it.state for it in watching.turns("chat_1")] == ["running"]
    _put(database, created_at=datetime.now(UTC) - timedelta(hours=7))
    assert [(it.state, it.error_code) for it in watching.turns("chat_1")] == [("interrupted", "interrupted")]
    assert records.start(_turn(2), replacing=turn.number).number == 2
    assert [it.number for it in records.turns("chat_1")] == [2]
    assert [it.number for it in records.turns("chat_1", replaced=True)] == [1, 2]


def test_files_are_noted_once_by_name_and_everything_goes_with_the_conversation(records: ConversationStore) -> None:
    for size in (1, 2):
        records.keep_file("chat_1", Attachment("a.txt", "user", "text/plain", size, "00"))
    assert [(file.name, file.size_bytes) for file in records.files("chat_1")] == [("a.txt", 2)]
    turn = records.start(_turn(1))
    records.delete("chat_1")
    assert records.files("chat_1") == ()
    with pytest.raises(RecordNotFound):
        records.turn(turn.id)


def test_the_turns_behind_a_figure_are_found_each_conversation_once(records: ConversationStore, database: Database) -> None:
    trail = SkillUsageLog(lambda: database)
    begun = datetime(2026, 11, 20, 9, tzinfo=UTC)
    records.begin(Conversation("chat_2", "ada", "Tables", "Editor", "own:large", SETTINGS))
    records.begin(Conversation("chat_3", "eve", "Hers", "Editor", "own:large", SETTINGS))
    for number, (chat, state) in enumerate((("chat_1", "done"), ("chat_1", "failed"), ("chat_2", "done"), ("chat_3", "done"))):
        at = begun + timedelta(days=number)
        turn = records.start(Turn(f"turn_{number}", chat, 0, "running", f"request {number} " * 40, created_at=at))
        kinds = [("offered", "pdf"), ("loaded", "pdf"), ("read", "pdf"), ("run", "pdf"), ("outcome", "pdf"), ("offered", "csv")]
        trail.add([SkillUsageEvent(chat, turn.id, kind, skill, at=at) for kind, skill in kinds])  # type: ignore[arg-type]
        trail.add([SkillUsageEvent(chat, turn.id, "ruled", "csv", "a rule", ok=False, at=at)])
        records.note(turn.id, state=state, finished_at=at)

    def found(limit: int = 50, offset: int = 0, **only: object) -> tuple[int, list[str | None]]:
        total, turns = trail.turns(TurnFilter("ada", **only), limit=limit, offset=offset)  # type: ignore[arg-type]
        return total, [turn.turn_id for turn in turns]

    for stage in ("offered", "loaded", "followed", "succeeded"):
        assert found(skill="pdf", stage=stage) == (2, ["turn_2", "turn_0"]), stage
    assert found(stage="offered") == (4, ["turn_2", "turn_2", "turn_0", "turn_0"])
    assert found(stage="refused", skill="csv") == (3, ["turn_2", "turn_1", "turn_0"])
    assert found(stage="loaded", skill="csv") == (0, [])
    assert found(stage="loaded", agent="Editor") == (1, ["turn_2"])
    assert found(stage="loaded", since=begun + timedelta(days=1)) == (1, ["turn_2"])
    assert found(stage="loaded", until=begun + timedelta(days=1), model="openai:gpt-5") == (1, ["turn_0"])
    assert found() == (3, ["turn_2", "turn_1", "turn_0"])
    assert found(limit=1, offset=1) == (3, ["turn_1"])
    assert found(failed=True, model="openai:gpt-5") == (1, ["turn_1"])
    assert found(skill="csv") == (0, [])  # offered alone is no use
    first = trail.turns(TurnFilter("ada", skill="pdf", stage="followed"))[1][0]
    assert (first.title, first.agent, first.model, first.number, first.state) == ("Tables", "Editor", "own:large", 1, "done")
    assert (len(first.request), first.skill_id, first.at) == (300, "pdf", begun + timedelta(days=2))


def test_the_trail_counts_by_skill_and_names_those_to_look_at(records: ConversationStore, database: Database) -> None:
    trail = SkillUsageLog(lambda: database)
    trail.add([])
    for number in range(10):
        records.begin(Conversation(f"chat_x{number}", "ada", "", None, None, ChatSettings()))
        offered = ("dead", "ignored", "fails", "fine", *(["new"] if number else []))  # `new` in nine: that says nothing
        steps = [SkillUsageEvent(f"chat_x{number}", "t", "offered", skill, tokens=50) for skill in offered]
        steps += [
            SkillUsageEvent(f"chat_x{number}", "t", "loaded", skill, tokens=1000) for skill in ("ignored", "fails", "fine")
        ]
        steps += [
            SkillUsageEvent(f"chat_x{number}", "t", "run", skill, "run_1", ok=skill == "fine", duration_ms=10)
            for skill in ("fails", "fine")
        ]
        steps.append(SkillUsageEvent(f"chat_x{number}", "t", "outcome", "fine", "done", tokens=9))
        trail.add(steps)
    report = trail.report()
    assert report.never_used == ("dead",)
    assert report.fails_often == ("fails",)
    assert report.not_followed({"ignored", "fine"}) == ("ignored",)
    assert report.not_followed(()) == ()
    fine = {use.skill_id: use for use in report.skills}["fine"]
    assert (fine.offered, fine.loaded, fine.run, fine.failed, fine.tokens, fine.duration_ms) == (10, 10, 10, 0, 10_500, 100)
    assert [step.event for step in trail.of(conversation="chat_x0", skill="fine")] == ["offered", "loaded", "run", "outcome"]
    assert len(trail.of(limit=5)) == 5
