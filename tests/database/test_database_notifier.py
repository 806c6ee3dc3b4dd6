"""Who waits hears at once that somebody else has written, on either kind of database; nothing hangs on hearing it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text, update

from skillyard.database import (
    UPDATES_CHANNEL,
    ChangeNotifier,
    Database,
    delete_live_events,
    delete_old_live_events,
    live_events,
    live_events_of,
    notify,
    publish_live_events,
    wait_for_change,
)


async def _listening(rung: asyncio.Event) -> None:
    """An ear that begins to listen rings once."""
    async with asyncio.timeout(60):
        await rung.wait()
    rung.clear()


async def test_what_another_process_writes_rings_for_everyone_who_waits_for_it(
    database: Database, database_address: str, tmp_path: Path
) -> None:
    script = (
        "from skillyard.database import Database, publish_live_events\n"
        f"with Database.open({str(tmp_path)!r}, {database_address!r}).write() as connection:\n"
        "    publish_live_events(connection, 'run_1', ['it has begun'])\n"
    )
    async with database.notifier.subscribe("run_1") as one, database.notifier.subscribe("turn_1", "run_1") as other:
        await _listening(one)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=True, timeout=120)
        async with asyncio.timeout(60):
            await asyncio.gather(one.wait(), other.wait())
    with database.read() as connection:
        assert [item.body for item in live_events_of(connection, "run_1")] == ["it has begun"]


async def test_who_hears_nothing_goes_on_after_a_while(database: Database) -> None:
    async with database.notifier.subscribe("nothing") as rung:
        await _listening(rung)
        await wait_for_change(rung, 0.01)
        assert not rung.is_set()


async def test_a_listener_whose_connection_is_cut_listens_again(database: Database) -> None:
    async with database.notifier.subscribe("run_1") as rung:
        await _listening(rung)
        if database.conninfo is not None:
            with database.write() as connection:
                others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
                connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}"))  # a constant
            await _listening(rung)
        with database.write() as connection:
            notify(connection, UPDATES_CHANNEL, "run_1")
            publish_live_events(connection, "run_1", [1])
        await _listening(rung)


async def test_a_notifier_of_a_database_that_is_not_there_is_silent(tmp_path: Path) -> None:
    missing = ChangeNotifier(conninfo="postgresql://nobody@127.0.0.1:1/nothing")
    async with missing.subscribe("run_1") as rung:
        await wait_for_change(rung, 0.05)
    async with ChangeNotifier(file=str(tmp_path / "missing.db")).subscribe("run_1") as rung:
        await wait_for_change(rung, 0.05)
    assert not (tmp_path / "missing.db").exists()


def test_happenings_are_numbered_kept_in_bounds_and_forgotten(database: Database) -> None:
    with database.write() as connection:
        assert publish_live_events(connection, "a", [{"n": 1}, {"n": 2}]) == 2
        assert publish_live_events(connection, "a", [{"n": 3}], without=[1]) == 3
        assert publish_live_events(connection, "b", ["other"]) == 1
    with database.read() as connection:
        assert [(item.number, item.body["n"]) for item in live_events_of(connection, "a")] == [(2, 2), (3, 3)]
        assert [item.number for item in live_events_of(connection, "a", after=2)] == [3]
    with database.write() as connection:
        delete_live_events(connection, "a")
        assert live_events_of(connection, "a") == ()
        delete_old_live_events(connection)
        assert len(live_events_of(connection, "b")) == 1
        row = connection.execute(live_events.select()).one()
        connection.execute(update(live_events).values(at=row.at - timedelta(days=2)))
        delete_old_live_events(connection)
        assert live_events_of(connection, "b") == ()


@pytest.mark.parametrize("steps", range(8))
async def test_who_is_cancelled_at_the_moment_it_rings_is_cancelled(steps: int) -> None:
    """Whichever step of the loop lies between the ring and the cancelling: a cancelled run must not wait for its next ring."""
    rung = asyncio.Event()

    async def waits_for_ever() -> None:
        while True:
            await wait_for_change(rung, 60)

    waiting = asyncio.create_task(waits_for_ever())
    for _ in range(8):
        await asyncio.sleep(0)
    rung.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=10)
    assert waiting.cancelled()
