"""Moments as the records keep them and as plain data shows them; and how long everything waits for other processes.

A moment is always UTC, always with an offset. Waiting times are one set of values, given with the database and the catalog. A
write by one process notifies the others at once (`skillyard.database.ChangeNotifier`). These are the times after which a
process that waits looks itself, sends a heartbeat, or gives up. Tests give a set of milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

MAX_RUN_MS: Final = 600_000
"""No run may take longer, wherever it works, and no skill may declare more."""


def utc_now() -> datetime:
    """This moment."""
    from datetime import UTC, datetime  # only needed by who writes

    return datetime.now(UTC)


def utc_text(moment: datetime, *, to: Literal["seconds", "milliseconds"] = "milliseconds") -> str:
    """A moment as text, in UTC.

    >>> from datetime import datetime
    >>> utc_text(datetime.fromisoformat("2026-01-31T09:00:00+01:00"), to="seconds")
    '2026-01-31T08:00:00Z'
    """
    from datetime import UTC

    return moment.astimezone(UTC).isoformat(timespec=to).replace("+00:00", "Z")


class Timing(NamedTuple):
    """Times in seconds."""

    heartbeat_s: float = 5.0
    """Between two heartbeats of a worker, or of a process that executes a turn of a conversation."""
    recent_s: float = 20.0
    """A worker whose last heartbeat is not older is alive."""
    silence_s: float = 60.0
    """A process on another machine, or a worker, that has been silent for longer is taken for dead."""
    confirm_s: float = 15.0
    """Between two heartbeats of a process that waits for the answer to a question."""

    look_s: float = 1.0
    """Between two looks at a record that a process waits for, and at the runs that may have been cancelled elsewhere."""
    lasting_look_s: float = 5.0
    """The same, where others look after the run as well."""
    turn_look_s: float = 0.5
    """The same for a turn of a conversation."""
    file_look_s: float = 0.1
    """Between two looks whether a SQLite file was changed."""
    poll_s: float = 2.0
    """Between two looks of a worker for runs."""
    organisations_s: float = 10.0
    """Between two looks of a group of workers for new organisations."""
    schedules_tick_s: float = 1.0
    """Between two looks at the clock for schedules that have come due."""
    schedules_look_s: float = 30.0
    """Between two looks at the schedules for what other processes have changed."""

    notifications_s: float = 5.0
    """Between two looks for what is to be reported to a webhook."""

    gather_s: float = 0.1
    """What happens closer together is written down, or shown, at once."""
    reconnect_s: float = 2.0
    """Before a worker connects to its queue again."""
    listen_again_s: float = 5.0
    """Before a listener that was cut off listens again."""
    first_retry_s: float = 0.5
    """Before a write that the database did not take is tried again; doubled each time."""
    longest_retry_s: float = 10.0
    """The most that such a write waits."""

    decide_s: float = 2.0
    """For the database to record that a run is cancelled; after that the run is interrupted all the same."""
    leave_s: float = 5.0
    """For a worker to leave its queue."""
    grace_s: float = 30.0
    """For a worker to report the end of a run whose time is over."""
    patience_s: float = 60.0
    """For a database that does not answer, while a caller waits for a run."""
    upgrade_s: float = 120.0
    """For an upgrade of the tables that yields to processes that use them."""


DEFAULT_TIMING: Final = Timing()
