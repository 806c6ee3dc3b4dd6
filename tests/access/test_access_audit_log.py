"""The trail: what was done, by whom, and found again."""

from __future__ import annotations

import threading
from contextvars import copy_context
from datetime import UTC, datetime, timedelta

import pytest

from skillyard.access import Actor, AuditLog, acting_as, actor_name, set_audit_subject
from skillyard.errors import InvalidInput


def test_what_is_recorded_is_found_again_the_newest_first(trail: AuditLog) -> None:
    with acting_as(Actor("ci", "acme", "req_1", "10.0.0.9")):
        trail.record("install", "pdf@20260101-000000", details={"from": "x"})
        trail.record("uninstall", "pdf", "failed")
    trail.record("install", "pdfs")
    events = trail.events()
    assert [event.subject for event in events] == ["pdfs", "pdf", "pdf@20260101-000000"]
    first = events[-1].to_dict()
    assert (first["actor"], first["organisation"], first["request_id"], first["address"]) == ("ci", "acme", "req_1", "10.0.0.9")
    assert first["details"] == {"from": "x"}
    assert [event.id for event in trail.events(limit=1, offset=1)] == [events[1].id]


def test_the_trail_is_narrowed(trail: AuditLog) -> None:
    with acting_as(Actor("ci")):
        trail.record("install", "pdf@1")
        trail.record("rollback", "pdf", "refused")
    with acting_as(Actor("ada")):
        trail.record("install", "pdf-tools@1")
        trail.record("install", "p_f@1")
    assert [event.subject for event in trail.events(subject="pdf")] == ["pdf", "pdf@1"]
    assert [event.subject for event in trail.events(subject="p_f")] == ["p_f@1"]
    assert [event.subject for event in trail.events(subject="p%")] == []
    assert trail.count(actor="ci") == 2
    assert trail.count(action="install", actor="ada") == 2
    assert [event.action for event in trail.events(outcome="refused")] == ["rollback"]
    assert trail.events(since=datetime.now(UTC) + timedelta(minutes=1)) == ()
    assert len(trail.events(since=datetime.now(UTC) - timedelta(minutes=1))) == 4
    with pytest.raises(InvalidInput):
        trail.events(outcome="fine")


def test_threads_of_a_request_act_in_its_name_and_others_do_not(trail: AuditLog) -> None:
    names = []
    with acting_as(Actor("ci")) as actor:
        set_audit_subject("what it is about")
        inside = copy_context()
        ours = threading.Thread(target=lambda: inside.run(lambda: (trail.record("x", "y"), names.append(actor_name("else")))))
        theirs = threading.Thread(target=lambda: names.append(actor_name("else")))
        for thread in (ours, theirs):
            thread.start()
            thread.join()
        assert actor.written == 1
        assert actor.subject == "what it is about"
    assert names == ["ci", "else"]
    assert actor_name("nobody else") == "nobody else"


def test_what_comes_from_outside_is_kept_short_and_on_one_line(trail: AuditLog) -> None:
    trail.record("install", "a\n\x1b[31mb\u202e" + "x" * 2000)
    subject = trail.events()[0].subject
    assert len(subject) <= 500
    assert subject.isprintable()
