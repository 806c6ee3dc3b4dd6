"""A server whose wall clock jumps by an hour: what others do goes on, and nothing waits for the hour to pass."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import select, update
from starlette.testclient import TestClient

from skillyard.access import Keys, SignInSessions
from skillyard.database import Database, api_sessions, questions, runs, session_approvals
from skillyard.engine.run_call import RunCall
from skillyard.execution import RunRequest
from skillyard.permissions import ApprovalAnswer, ApprovalRequest, SqlSessionApprovals
from skillyard.server.background.approval_questions import ApprovalQuestions
from skillyard.server.organisation_services import ScheduleClock
from skillyard.times import Timing, utc_now

pytestmark = pytest.mark.both_databases
HOUR = timedelta(hours=1)
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
ELSEWHERE = "another machine|boot|space|7|1"


def _here() -> Iterator[tuple[ModuleType, str]]:
    """Every name by which a module of ours reads the wall clock."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("skillyard."):
            continue
        if getattr(module, "utc_now", None) is utc_now:
            yield module, "utc_now"
        if getattr(module, "datetime", None) is datetime and "datetime.now(" in inspect.getsource(module):
            yield module, "datetime"


@contextlib.contextmanager
def jumped(by: timedelta) -> Iterator[None]:
    """The wall clock of this process, moved; that of the database and the one that only counts seconds are as they were."""

    class Moved(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    with pytest.MonkeyPatch.context() as patch:
        for module, word in _here():
            patch.setattr(module, word, Moved if word == "datetime" else lambda: datetime.now(UTC) + by)
        yield


async def _soon(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (found := await asyncio.to_thread(look)):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    return found


@JUMPS
async def test_a_question_of_another_server_stays_open_and_is_answered(
    database_address: str, jump: timedelta, timing: Timing
) -> None:
    database = Database.open("", database_address, timing=timing)
    theirs, ours = ApprovalQuestions(lambda: database, "w"), ApprovalQuestions(lambda: database, "w")
    asking = asyncio.create_task(theirs.asker("ada").ask(ApprovalRequest("user:a", "a", "sha256:0", "s")))
    (question,) = await _soon(theirs.open)
    with database.write() as connection:
        connection.execute(update(questions).values(owner=ELSEWHERE))
    with jumped(jump):
        another = asyncio.create_task(ours.asker("eve").ask(ApprovalRequest("user:b", "b", "sha256:1", "t")))
        found = await _soon(lambda: open_ones if len(open_ones := ours.open()) == 2 else None)
        assert found[0].id == question.id
        for one in found:
            await asyncio.to_thread(ours.answer, one.id, ApprovalAnswer("once"))
        assert [(await answer).decision for answer in (asking, another)] == ["once", "once"]
    database.close()


@JUMPS
async def test_a_question_is_answered_after_the_clock_of_the_database_was_set(
    clocked_address: str, set_clock: Callable[[int], None], jump: timedelta, timing: Timing
) -> None:
    database = Database.open("", clocked_address, timing=timing)
    theirs, ours = ApprovalQuestions(lambda: database, "w"), ApprovalQuestions(lambda: database, "w")
    asking = asyncio.create_task(theirs.asker("ada").ask(ApprovalRequest("user:a", "a", "sha256:0", "s")))
    await _soon(theirs.open)
    with database.write() as connection:
        connection.execute(update(questions).values(owner=ELSEWHERE))
    set_clock(int(jump.total_seconds()))
    another = asyncio.create_task(ours.asker("eve").ask(ApprovalRequest("user:b", "b", "sha256:1", "t")))
    for one in await _soon(lambda: open_ones if len(open_ones := ours.open()) == 2 else None):
        await asyncio.to_thread(ours.answer, one.id, ApprovalAnswer("once"))
    assert [(await answer).decision for answer in (asking, another)] == ["once", "once"]
    database.close()


@JUMPS
def test_runs_that_others_carry_are_not_interrupted(
    client: TestClient, app: FastAPI, make_skill: Any, home: Any, jump: timedelta
) -> None:
    make_skill(
        home / "project/.claude/skills", "adder", files={"scripts/execute.py": "def execute(parameters):\n    return 1\n"}
    )
    client.post("/api/v1/catalog/refresh")
    catalog = app.state.pool.main.catalog
    journal = catalog.records().journal
    journal.queue(RunCall(RunRequest(catalog.get("adder"), {}, {}, run_id="run_there")).record())
    assert journal.start("run_there")
    with journal.database.write() as connection:
        connection.execute(update(runs).values(owner=ELSEWHERE))
    with jumped(jump):
        assert journal.recover() == ()
        answer = client.post("/api/v1/runs", json={"skill": "adder", "parameters": {}})
        assert answer.json()["data"]["state"] == "succeeded", answer.text
    assert journal.get("run_there").state == "running"


@JUMPS
def test_who_is_signed_in_stays_signed_in_and_who_agreed_is_not_asked_again(database_address: str, jump: timedelta) -> None:
    database = Database.open("", database_address)
    keys, sessions = Keys(lambda: database), SignInSessions(lambda: database)
    approvals = SqlSessionApprovals(lambda: database)
    key, secret = keys.create("ada", ["admin"])
    cookie, _ = sessions.open(key, timedelta(hours=2))
    short, _ = sessions.open(key, timedelta(minutes=30))
    approvals.add("s", "user:a", "sha256:0")
    with jumped(jump):
        assert keys.find(secret) is not None
        assert sessions.find(cookie) is not None
        assert approvals.has("s", "user:a", "sha256:0")
        sessions.open(key, HOUR)
        approvals.add("t", "user:a", "sha256:0")
    assert sessions.find(short) is not None
    with database.read() as connection:
        assert len(connection.execute(select(api_sessions)).all()) == 3
        assert len(connection.execute(select(session_approvals)).all()) == 2
    database.close()


def test_schedules_are_looked_at_when_the_clock_was_ahead_and_is_set_right(
    client: TestClient, app: FastAPI, make_skill: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(
        home / "project/.claude/skills", "adder", files={"scripts/execute.py": "def execute(parameters):\n    return 1\n"}
    )
    client.post("/api/v1/catalog/refresh")
    clock: ScheduleClock = app.state.clock
    clock._timing = clock._timing._replace(schedules_look_s=0.2)
    with jumped(HOUR):
        clock.wake("default")
        while "default" not in clock._looks:  # until it has looked again
            time.sleep(0.01)
    body = {"name": "once", "skill": "adder", "at": (datetime.now(UTC) + timedelta(seconds=1)).isoformat()}
    monkeypatch.setattr(clock, "wake", lambda name: None)  # as if another server had been told of it
    assert client.post("/api/v1/schedules", json=body).status_code == 201
    end = time.monotonic() + 30
    while not client.get("/api/v1/runs").json()["data"]:
        assert time.monotonic() < end
        time.sleep(0.1)


@JUMPS
def test_limits_count_no_wall_clock(jump: timedelta) -> None:
    from skillyard.server.middleware.request_limits import TokenBucket
    from skillyard.server.server_settings import RateLimit

    bucket = TokenBucket(RateLimit(2))
    assert [bucket.take("ada")[0] for _ in range(2)] == [1, 0]
    with jumped(jump):
        assert bucket.take("ada")[0] < 0
        assert 0 < bucket.wait("ada") <= 60
