"""`skillyard worker`: run what is queued for worker pools; `skillyard workers`: the pools, their workers and queues."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.openers import open_organisation, open_records
from skillyard.cli.option_values import parse_positive

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.engine import Worker, WorkerGroup
    from skillyard.library import Catalog


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `worker`."""
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME",
        help="work for this pool, may be given several times (default: the pool of all runs, where they go through the queue)",
    )
    parser.add_argument(
        "--concurrency", type=parse_positive, default=1, metavar="N", help="so many runs at once (default: %(default)s)"
    )
    parser.add_argument(
        "--grace",
        type=parse_positive,
        default=600,
        metavar="SECONDS",
        help="when told to stop, give the runs so long to end (default: %(default)s)",
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--organisation", metavar="NAME", help="for the runs of this one (default: the server's own)")
    whose.add_argument(
        "--all-organisations", action="store_true", help="for the runs of every one, also of those to come; they take turns"
    )


def worker_command(arguments: argparse.Namespace) -> int:
    """Work until a signal: the first lets what works end, the second ends it."""
    import asyncio

    catalog = open_organisation(arguments)
    worker = catalog.worker(*arguments.pool, concurrency=arguments.concurrency)
    serving = _worker_group(catalog, worker) if arguments.all_organisations else worker
    asyncio.run(_serve(worker, serving, arguments.grace, arguments.screen))
    return OK


def _worker_group(catalog: Catalog, first: Worker) -> WorkerGroup:
    """A worker for each organisation; `first` says of what kind they are."""
    from skillyard.access import Organisations
    from skillyard.engine import Slots, WorkerGroup

    slots, organisations = Slots(first.concurrency), Organisations(lambda: catalog.records().database)

    def worker_of(name: str) -> Worker:
        organisation_catalog = organisations.catalog(name, catalog)
        return organisation_catalog.worker(*first.pools, concurrency=first.concurrency, slots=slots)

    return WorkerGroup(lambda: [organisation.name for organisation in organisations.all()], worker_of, timing=catalog.timing)


async def _serve(worker: Worker, runner: Worker | WorkerGroup, grace_s: float, screen: Screen) -> None:
    import asyncio

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    serving = asyncio.create_task(runner.serve(stop, grace_s=grace_s))

    def stop_or_cancel() -> None:
        if stop.is_set():
            serving.cancel()
        else:
            screen.note("stopping: what works may end; once more to end it now")
            stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_or_cancel)
    started = {"worker": worker.id, "pools": list(worker.pools), "concurrency": worker.concurrency}
    if screen.as_json:
        screen.data(started)
    else:
        screen.line(f"{worker.id} works for {', '.join(worker.pools)}; {worker.concurrency} at once")
    screen.flush()
    try:
        await serving
    except asyncio.CancelledError:
        screen.note("stopped at once; what worked is recorded as interrupted")


def add_workers_arguments(parser: argparse.ArgumentParser) -> None:
    """`workers` takes nothing of its own."""


def workers_command(arguments: argparse.Namespace) -> int:
    """List them."""
    from skillyard.engine import WorkerRoster

    screen: Screen = arguments.screen
    roster = WorkerRoster(open_records(arguments).database)
    workers, pools = roster.workers(), roster.pools()
    if screen.as_json:
        screen.data({"workers": [worker.to_dict() for worker in workers], "pools": [pool.to_dict() for pool in pools]})
        return OK
    if not workers and not pools:
        screen.note("no workers")
        screen.hint("start one with `skillyard worker --pool NAME`; it needs PostgreSQL")
        return OK
    rows = [(pool.name, str(pool.workers), str(pool.waiting), str(pool.running)) for pool in pools]
    screen.table(rows, header=("POOL", "WORKERS", "WAITING", "RUNNING"))
    if workers:
        screen.line()
        lines = [(one.id, ", ".join(one.pools), one.state, f"{len(one.running)} of {one.concurrency}") for one in workers]
        screen.table(lines, header=("WORKER", "POOLS", "STATE", "RUNS"))
    return OK
