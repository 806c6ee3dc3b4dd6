"""Background work of the server: runs and installs after their response, notifications by webhook, and the shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import quote

from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT_ORGANISATION
from skillyard.database import delete_live_events, live_events_of, publish_live_events, runs, turns
from skillyard.engine import FAILED_STATES, ProcessIdentity, StartedRun
from skillyard.errors import InvalidConfiguration, NetworkFailed, SkillyardError
from skillyard.execution import Run
from skillyard.execution.skill_call import TRIAL_INTERFACES
from skillyard.files import locked, replace_file
from skillyard.network import guarded_request
from skillyard.network.hosts import read_destination
from skillyard.server.server_settings import NotificationKind, NotificationSettings
from skillyard.text import shorten, single_line
from skillyard.times import utc_now, utc_text
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.access import Organisations
    from skillyard.database import Database
    from skillyard.registry import Registry
    from skillyard.server.background.approval_questions import ApprovalQuestions
    from skillyard.times import Timing


class BackgroundRuns:
    """Every run that was begun here and has not ended."""

    def __init__(self) -> None:
        self._kept: dict[str, StartedRun] = {}

    async def begin(self, beginning: Awaitable[StartedRun]) -> StartedRun:
        """Begin a run, and keep it until it has ended."""
        begun = await beginning
        self._kept[begun.run_id] = begun
        begun.ended.add_done_callback(lambda task: self._over(begun.run_id, task))
        return begun

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return bool(self._kept)

    def cancel(self, run_id: str) -> None:
        """End the work on a run that was begun here, whose end is recorded already."""
        if (begun := self._kept.get(run_id)) is not None:
            begun.ended.cancel()

    async def ended(self, run_id: str) -> None:
        """Wait until a run of this process has ended."""
        if (begun := self._kept.get(run_id)) is not None:
            await asyncio.wait([begun.ended])

    async def close(self, grace_s: float) -> None:
        """Wait for every run to end, and cancel those that have not after `grace_s` seconds."""
        left = [begun.ended for begun in self._kept.values()]
        if left:
            _, late = await asyncio.wait(left, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _over(self, run_id: str, task: asyncio.Task[Run]) -> None:
        self._kept.pop(run_id)
        if not task.cancelled():
            task.exception()  # it is in the record


_PROCESS_ENDED: Final = "the process that worked on it is gone; nothing was changed"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstallFailure:
    """Why an install failed before it had a log of its own."""

    code: str
    message: str


class BackgroundInstalls:
    """Runs installs in threads; the start of one, or its failure, is an event of the operation for a day."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._going: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether an install is in progress here."""
        return bool(self._going)

    async def begin(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        """Do the work in a thread, and release its resources when it is done.

        Raises:
            DatabaseUnavailable: that it began cannot be recorded; nothing was begun.
        """
        async with held:
            await run_in_threadpool(self._publish, operation_id, {"begun": str(ProcessIdentity.current())})
            task = self._going[operation_id] = asyncio.create_task(self._done(operation_id, work, held.pop_all()))
        task.add_done_callback(lambda _: self._going.pop(operation_id, None))

    def progress(self, operation_id: str) -> tuple[bool, InstallFailure | None]:
        """Whether an operation is in progress, in any process, and why it failed when it did. Blocks."""
        with self._database().read() as connection:
            events = live_events_of(connection, operation_id)
        last = events[-1].body if events else {}
        if "failed" in last:
            return False, InstallFailure(**last["failed"])
        if "begun" not in last:
            return False, None
        owner = ProcessIdentity.read(last["begun"])
        ended = owner is None or owner.alive() is False
        return not ended, InstallFailure("interrupted", _PROCESS_ENDED) if ended else None

    async def close(self) -> None:
        """Wait for installs in progress: they cannot be cancelled, only killed."""
        if self._going:
            await asyncio.wait(tuple(self._going.values()))

    async def _done(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        failed = None
        async with held:
            try:
                await run_in_threadpool(work)
            except SkillyardError as error:
                failed = InstallFailure(error.code, error.message)
            except Exception as error:
                _log.exception("the operation %s failed", operation_id)
                failed = InstallFailure(SkillyardError.code, f"something went wrong in the server: {type(error).__name__}")
        try:
            await run_in_threadpool(self._end, operation_id, failed)
        except SkillyardError:
            _log.exception("how the operation %s ended could not be recorded", operation_id)

    def _end(self, operation_id: str, failed: InstallFailure | None) -> None:
        if failed is not None:
            self._publish(operation_id, {"failed": {"code": failed.code, "message": failed.message}})
            return
        with self._database().write() as connection:
            delete_live_events(connection, operation_id)

    def _publish(self, operation_id: str, body: object) -> None:
        with self._database().write() as connection:
            publish_live_events(connection, operation_id, [body])


@dataclass(frozen=True, slots=True)
class Notification(WireForm, times="full"):
    """Something that a person wants to know: names and ids, nothing that a run was given, printed or gave.

    `id` is the same whenever the same thing is reported, `path` where the page shows it; `text` is one line for people.
    """

    id: str
    event: NotificationKind | Literal["test"]
    organisation: str
    text: str
    path: str
    at: datetime


_News = tuple[str, str, str]  # an id, the words for people, where the page shows it


class NotificationSources(NamedTuple):
    """Where the news of one organisation come from."""

    questions: ApprovalQuestions
    registry: Registry
    database: Database

    def waiting(self) -> Iterator[_News]:
        """The id, the words and the page of all that waits for an approval."""
        for question in self.questions.open():
            yield question.id, f"{question.asked_by} waits for an answer: {question.request.title}", "/approvals"
        asked = select(turns.c.id, turns.c.conversation_id).where(turns.c.state == "waiting", turns.c.replaced.is_(False))
        with self.database.read() as connection:
            chats = connection.execute(asked.order_by(turns.c.created_at).limit(_MOST)).all()
        for chat in chats:
            yield chat.id, "A conversation waits for an answer", f"/chat/{chat.conversation_id}"
        for version in self.registry.approvals.listed("waiting"):
            words = f"Version {version.label or version.version} of {version.skill_id} waits for approval"
            yield f"{version.skill_id}@{version.digest}", words, "/approvals"

    def failed(self, since: datetime) -> Iterator[_News]:
        """The same of the runs that failed since then, the first first; tests of skills are none."""
        ended = select(runs.c.id, runs.c.skill_name, runs.c.schedule, runs.c.error_code, runs.c.state).where(
            runs.c.state.in_(FAILED_STATES),
            runs.c.created_at >= since - _LONGEST,
            runs.c.finished_at >= since,
            func.coalesce(runs.c.interface, "").not_in(TRIAL_INTERFACES),
        )
        with self.database.read() as connection:
            rows = connection.execute(ended.order_by(runs.c.finished_at).limit(_MOST)).all()
        for row in rows:
            of = f" of the schedule {row.schedule}" if row.schedule else ""
            yield row.id, f"The run of {row.skill_name}{of} {row.state}: {row.error_code or 'no reason'}", f"/runs/{row.id}"

    def updates(self) -> Iterator[_News]:
        """The same of what is newer where installed skills came from; asks there."""
        for skill_id in self.registry.installed.serving():
            update = self.registry.pending_update(skill_id)
            if update.state == "update":
                to = f" to {update.available}" if update.available else ""
                path = f"/skills/{quote(f'installed:{skill_id}')}?tab=versions"
                yield f"{skill_id}@{update.available}", f"{skill_id} can be updated{to}", path


_MOST: Final = 100  # of one kind at once; more are one notification
_EACH: Final = 10
_LONGEST: Final = timedelta(days=1)  # between the request of a run and its end
_LATE: Final = timedelta(minutes=1)  # how much later than its time an end may be written
_UPDATES: Final = timedelta(days=1)
_TRIES: Final = 3
_LISTS: Final = {"approval": "/approvals", "failure": "/runs?state=failed", "update": "/skills"}
_SEND_S: Final = 10.0
_LEAVING_S: Final = 5.0
_LINE: Final = 300
_ELSEWHERE: Final = 6  # organisations beside the default one are looked at so much less often


class OrganisationSources(Protocol):
    """The organisations of a server, and where the news of one come from."""

    @property
    def organisations(self) -> Organisations:
        """All of them."""

    def sources(self, organisation: str) -> AbstractAsyncContextManager[NotificationSources]:
        """Where its news come from, for as long as the block lasts."""


class WebhookNotifier:
    """Reports to one webhook what waits for an approval, which runs failed and what can be updated.

    What was reported is noted in a file of the home under a lock: of all processes of a machine one reports a thing, once, and
    what happened while no server was there is reported later. What the webhook does not take in three tries is logged.
    """

    def __init__(self, settings: NotificationSettings, folder: str, *, allow_private: bool, timing: Timing) -> None:
        """As `settings`; what was reported is noted in `folder`.

        Raises:
            InvalidConfiguration: the secret is not set, or the address needs https or is in a private network.
        """
        self._settings = settings
        self._secret = settings.secret(os.environ)
        self._noted = Path(folder, "notifications.json")
        self._private, self._timing = allow_private, timing
        if settings.url.lower().startswith("http:") and not allow_private:
            hint = "use https, or private-hosts = true in [packages] where the webhook is in your own network"
            raise InvalidConfiguration("the address of [server.notifications] is not https", hint=hint)

    @contextlib.asynccontextmanager
    async def running(self, pool: OrganisationSources) -> AsyncIterator[None]:
        """Report inside the block; what is being reported when it ends has five seconds more."""
        leaving = asyncio.Event()
        looks = (self.news, self.update_news) if self._settings.url else ()
        going = [asyncio.create_task(self._go(pool, look, leaving)) for look in looks]
        try:
            yield
        finally:
            leaving.set()
            if going:
                _, late = await asyncio.wait(going, timeout=_LEAVING_S)
                for task in late:
                    task.cancel()

    async def send(self, notification: Notification) -> None:
        """Send one notification.

        Raises:
            NetworkRefused: the address may not be reached.
            NetworkFailed: it did not answer, or did not take it.
        """
        body = json.dumps(notification.to_dict(), ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "user-agent": "skillyard"}
        if self._secret:
            headers["x-hub-signature-256"] = "sha256=" + hmac.new(self._secret.encode(), body, "sha256").hexdigest()
        to = read_destination(self._settings.url)
        try:
            answer = await guarded_request(
                "POST",
                self._settings.url,
                allow=(f"{to.scheme}://{to.host}:{to.port}",),
                headers=headers,
                body=body,
                timeout_s=_SEND_S,
                max_bytes=64 * 1024,
                allow_private=self._private,
            )
            status = answer.status
        except NetworkFailed as error:
            if (answered := error.details.get("status")) is None:
                raise
            status = int(str(answered))  # it says more than anybody reads: what it thinks of the notification is known
        if not 200 <= status < 300:
            raise NetworkFailed(f"the webhook at {to.host} answered {status}", hint="check its address and its secret")

    async def _go(
        self,
        pool: OrganisationSources,
        look: Callable[[str, NotificationSources], list[Notification]],
        leaving: asyncio.Event,
    ) -> None:
        for number in itertools.count():
            try:
                for name in await asyncio.to_thread(lambda: [one.name for one in pool.organisations.all()]):
                    if name == DEFAULT_ORGANISATION or number % _ELSEWHERE == 0:
                        async with pool.sources(name) as sources:
                            news = await asyncio.to_thread(look, name, sources)
                        for notification in news:
                            await self._send_or_log(notification)
            except SkillyardError as error:
                _log.warning("looking for what to notify about failed: %s", error.message)
            except Exception:
                _log.exception("looking for what to notify about failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.notifications_s):
                    await leaving.wait()
            if leaving.is_set():
                return

    async def _send_or_log(self, notification: Notification) -> None:
        for left in reversed(range(_TRIES)):
            try:
                await self.send(notification)
                return
            except SkillyardError as error:
                if not left:
                    _log.warning("%s was not reported: %s", notification.id, error.message)
                else:
                    await asyncio.sleep(self._timing.first_retry_s)

    def news(self, organisation: str, sources: NotificationSources) -> list[Notification]:
        """What waits and what failed in one organisation and was not reported, noted as reported. Blocks.

        Raises:
            SkillyardError: the records cannot be read.
            OSError: it cannot be noted.
        """
        found: list[Notification] = []
        with self._notes(organisation) as (known, now):
            if "approval" in self._settings.events:
                found += self._unreported("approval", organisation, known, sources.waiting(), now)
            if "failure" in self._settings.events:
                since = datetime.fromisoformat(known.setdefault("since", utc_text(now)))
                found += self._unreported("failure", organisation, known, sources.failed(since - _LATE), now)
            known["since"] = utc_text(now)
        return found

    def update_news(self, organisation: str, sources: NotificationSources) -> list[Notification]:
        """The updates of one organisation that were not reported, noted as reported; they are looked for once a day. Blocks.

        Raises:
            SkillyardError, OSError: as `news`.
        """
        if "update" not in self._settings.events:
            return []
        with self._notes(organisation) as (known, now):
            if "updated" in known and datetime.fromisoformat(known["updated"]) > now - _UPDATES:
                return []
            known["updated"] = utc_text(now)
        updates = tuple(sources.updates())  # which takes its time: others go on meanwhile
        with self._notes(organisation) as (known, now):
            return self._unreported("update", organisation, known, updates, now)

    @contextlib.contextmanager
    def _notes(self, organisation: str) -> Iterator[tuple[dict[str, Any], datetime]]:
        """What is noted of an organisation, kept when the block ends; and the time."""
        with locked(self._noted):
            noted: dict[str, dict[str, Any]] = {}
            with contextlib.suppress(OSError, ValueError):
                noted = json.loads(self._noted.read_bytes())
            yield noted.setdefault(organisation, {}), utc_now()
            replace_file(self._noted, json.dumps(noted).encode(), durable=False)

    def _unreported(
        self, event: NotificationKind, organisation: str, known: dict[str, Any], now_there: Iterable[_News], now: datetime
    ) -> list[Notification]:
        """What of it is new, at most ten of each kind and how many more there are; `known` is brought up to date."""
        there = list(now_there)
        new = [one for one in there if one[0] not in known.get(event, ())]
        known[event] = [one[0] for one in there]
        found = [
            Notification(f"{event}:{what}", event, organisation, shorten(single_line(words), _LINE), path, now)
            for what, words, path in new[:_EACH]
        ]
        if rest := new[_EACH:]:
            words = f"{len(rest)} more of this"
            found.append(Notification(f"{event}:{rest[0][0]}:more", event, organisation, words, _LISTS[event], now))
        return found


_SETTLING_S: Final = 10


class Shutdown:
    """Whether the server stops, what is to be done when that begins, and how many requests are under way."""

    def __init__(self) -> None:
        self.begun = False
        self._then: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []
        self._under_way = 0
        self._at = 0.0

    def then(self, do: Callable[[], object], *, last: bool = False) -> None:
        """Have something done when the server begins to stop, or with `last` when it takes no more requests."""
        (self._last if last else self._then).append(do)

    def begin(self) -> None:
        """From now on the server takes leave; the second time nothing happens."""
        if not self.begun:
            self.begun, self._at = True, time.monotonic()
            for do in self._then:
                do()

    def stop_accepting(self) -> None:
        """From now on no request is accepted, and the grace period of those in progress begins."""
        self._at = time.monotonic()
        for do in self._last:
            do()

    def left(self, seconds: float) -> float:
        """How much is left of so many seconds since it began."""
        return max(0.0, seconds - (time.monotonic() - self._at)) if self.begun else seconds

    @contextlib.contextmanager
    def request_in_progress(self) -> Iterator[None]:
        """Count a request for as long as the block lasts."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def settled(self) -> None:
        """Wait until requests that were cut off have written down how they ended, at most ten seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLING_S):
                while self._under_way:
                    await asyncio.sleep(0.02)
