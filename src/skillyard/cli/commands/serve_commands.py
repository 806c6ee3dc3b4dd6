"""`skillyard serve`, `mcp` and `worker`: processes that stay and serve; `workers`: who works for which pool."""

from __future__ import annotations

import argparse
import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import (
    LOCAL_OWNER,
    add_package_option,
    add_writable_option,
    discover_catalog,
    open_catalog,
    open_organisation,
    open_records,
    parse_port,
    parse_positive,
    parse_tool_prefix,
)
from skillyard.cli.install_support import make_scanner
from skillyard.cli.screen import OK, counted
from skillyard.errors import DatabaseUnavailable, InvalidConfiguration, UsageProblem

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.engine import Worker, WorkerGroup
    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.workspace import Workspace


_FIRST_REPORT_S: Final = 1.0  # a database that has not answered by then is waited for
_RETRY_S: Final = 1.0


@contextmanager
def report_database_state(catalog: Catalog, screen: Screen) -> Iterator[None]:
    """Look for the database that was named, beside what the block does, until it answers or the block ends.

    A file of this machine is there, or it is made; whether one that is there is damaged is looked at once.
    """
    configured = catalog.configuration.database_url
    if not configured or configured.startswith("sqlite"):
        threading.Thread(target=_examine, args=(catalog.data_directory, configured, screen), daemon=True).start()
        yield
        return
    over = threading.Event()
    threading.Thread(target=_watch, args=(catalog.data_directory, configured, screen, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _examine(data: str, configured: str | None, screen: Screen) -> None:
    """Report a damaged file of the records; requests that meet the damage report it too."""
    from skillyard.database import Database

    database = Database.at(data, configured)
    try:
        if database.file is None or not database.file.exists():
            return
        check = database.check(quick=True)
    except DatabaseUnavailable:
        return  # a request for a record reports it
    finally:
        database.close()
    if not check.whole:
        screen.note(f"the database {check.url} is damaged (database_damaged): {check.problems[0]}")
        screen.hint("stop the server, then `skillyard db repair` recovers what can be read")


def _watch(data: str, configured: str, screen: Screen, over: threading.Event) -> None:
    """Report why the database does not answer, each reason once, until it does."""
    from skillyard.database import database_url, redacted_url

    name = redacted_url(database_url(data, configured))
    reported: list[str] = []

    def report(reason: str, hint: str) -> None:
        if reason not in reported and not over.is_set():
            reported.append(reason)
            screen.note(f"waiting for the database (database_unavailable): {reason}; until it answers, /readyz says so too")
            screen.hint(hint)

    no_answer = f"the database {name} does not answer"
    timer = threading.Timer(_FIRST_REPORT_S, report, (no_answer, "look whether it runs and can be reached from here"))
    timer.daemon = True
    timer.start()
    while not over.is_set():
        problem = _database_problem(data, configured)
        timer.cancel()
        if problem is None:
            if reported:
                screen.note(f"the database {name} answers")
            return
        report(problem.message, problem.hint or "make it reachable")
        over.wait(_RETRY_S)


def _database_problem(data: str, configured: str) -> DatabaseUnavailable | None:
    """Why the database cannot be used; None when it can."""
    from skillyard.database import Database

    try:
        database = Database.open(data, configured, migrate=False)
        try:
            database.status()
        finally:
            database.close()
    except DatabaseUnavailable as error:
        return error
    return None


def add_mcp_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `mcp`."""
    parser.add_argument(
        "--language", choices=("en", "zh"), default="en", help="language of the tool descriptions (default: en)"
    )
    parser.add_argument("--no-run", action="store_true", help="do not offer the tool that runs scripts")
    parser.add_argument(
        "--prewarm",
        type=int,
        metavar="K",
        help="keep K sandboxes (at most 8) ready for each Python skill that has run; they take memory",
    )
    parser.add_argument(
        "--tool-prefix",
        type=parse_tool_prefix,
        default="",
        metavar="PREFIX",
        help="a prefix for the name of each tool, such as yard_, for a client with its own tool called skill",
    )
    parser.add_argument("--set", metavar="NAME", help="serve only the skills of this set, whichever the project uses")
    parser.add_argument("--no-watch", action="store_true", help="do not announce changes in the skill folders")
    parser.add_argument("--workspace", metavar="DIR", help="offer a shell, code and files too, sandboxed, over this folder")
    add_package_option(
        parser, "with --workspace: give it a package or program: pypdf, npm:docx or program:qpdf; may be repeated"
    )
    add_writable_option(
        parser, "with --workspace: allow writing files that are held back in a project, such as .vscode; may be repeated"
    )


def mcp_command(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    from skillyard.mcp import serve_stdio

    if find_spec("mcp") is None:
        raise UsageProblem("the package for MCP is not installed", hint="pip install 'mcp>=2.3,<3'")
    catalog = discover_catalog(arguments, roots=arguments.root, skill_set=arguments.set)
    if sys.stdin.isatty():
        arguments.screen.note(
            f"serving {counted(len(catalog), 'skill')} over standard input and output; MCP clients start this, Ctrl-C stops it"
        )
    serve_stdio(
        catalog,
        permissions=catalog.rules(),
        executor=lambda: catalog.executor(prewarm=arguments.prewarm),
        run_skills=not arguments.no_run,
        language=arguments.language,
        watch=not arguments.no_watch,
        user=LOCAL_OWNER,
        workspace=_workspace(catalog, arguments),
        tool_prefix=arguments.tool_prefix,
    )
    return OK


def _workspace(catalog: Catalog, arguments: argparse.Namespace) -> Workspace | None:
    """The workspace that was asked for, with what is granted to it."""
    if arguments.workspace is None:
        if arguments.packages or arguments.writable:
            option = "--with" if arguments.packages else "--writable"
            raise UsageProblem(f"{option} without --workspace", hint="name the folder to work in: --workspace DIR")
        return None
    if not Path(arguments.workspace).is_dir():
        message = f"--workspace {arguments.workspace}: there is no such folder"
        raise UsageProblem(message, hint="name an existing folder, or create it first")
    return catalog.workspace(arguments.workspace, packages=arguments.packages, writable=arguments.writable)


_OPTION_VARIABLES: Final = {"database_url": "SKILLYARD_DATABASE_URL", "store": "SKILLYARD_STORE", "engine": "SKILLYARD_ENGINE"}


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; all but loopback addresses need keys")
    parser.add_argument("--port", type=parse_port, default=8787, help="the port; 0 is any free one (default: %(default)s)")
    parser.add_argument("--require-keys", action="store_true", help="require a key from users of this machine too")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name of this server; may be repeated",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="a proxy, or its network, whose X-Forwarded-For and X-Forwarded-Proto are trusted; may be repeated",
    )
    parser.add_argument(
        "--workers", type=parse_positive, default=1, metavar="N", help="serve in N processes (default: %(default)s)"
    )
    parser.add_argument(
        "--database-url",
        metavar="URL",
        help="where the records are; others on this machine see it, so give a password with SKILLYARD_DATABASE_URL instead",
    )
    parser.add_argument("--store", metavar="PLACE", help="where packages are kept: a folder, or s3://bucket/prefix")
    parser.add_argument(
        "--engine",
        choices=("local", "procrastinate"),
        help="where runs execute: in this process, or by `skillyard worker` over PostgreSQL (default: as configured, local)",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="what is written for each request (default: text)"
    )
    parser.add_argument(
        "--grace",
        type=parse_positive,
        default=30,
        metavar="SECONDS",
        help="on shutdown, how long requests and runs may take to end (default: %(default)s)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=0,
        metavar="SECONDS",
        help="on shutdown, first keep serving for this long while /readyz fails (default: 0)",
    )


def serve_command(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    gc.disable()  # it would look again and again through what is loaded and stays; the server enables it when it has everything
    try:
        return _serve_here(arguments)
    finally:
        gc.enable()


def _serve_here(arguments: argparse.Namespace) -> int:
    try:
        from skillyard.database import database_url
        from skillyard.server import ListenOptions, serve
    except ModuleNotFoundError as missing:
        packages = "'fastapi>=0.115' 'mcp>=2.3,<3' 'prometheus-client>=0.22' 'python-multipart>=0.0.20' 'sse-starlette>=3'"
        hint = f"pip install {packages} 'structlog>=25' 'uvicorn[standard]>=0.34'"
        raise UsageProblem(f"{missing.name} is not installed", hint=hint) from None

    for option, variable in _OPTION_VARIABLES.items():
        if given := getattr(arguments, option):
            os.environ[variable] = given  # for the other processes too
    from skillyard.sandbox import give_back_folders

    screen = arguments.screen
    catalog = open_catalog(arguments, installed=True)
    database_url(catalog.data_directory, catalog.configuration.database_url)  # refuses what is none
    _require_home(catalog)
    give_back_folders(catalog.data_directory)
    _require_queue(catalog)
    many, processes = len(catalog), arguments.workers

    def ready(address: str) -> None:
        if screen.as_json:
            screen.data({"address": address})
        else:
            shared = f" with {processes} processes" if processes > 1 else ""
            screen.line(f"serving {counted(many, 'skill')} on {address}{shared}; Ctrl-C stops it")
        sys.stdout.flush()

    how = ListenOptions(workers=processes, drain_s=arguments.drain, grace_s=arguments.grace, log=arguments.log_format)
    again = functools.partial(_open, arguments.root, arguments.project, cache=not arguments.no_cache)
    opening = again if processes > 1 else functools.partial(_with_registry, catalog)
    with report_database_state(catalog, screen):
        serve(
            opening,
            host=arguments.host,
            port=arguments.port,
            how=how,
            ready=ready,
            allowed_hosts=arguments.allowed_host,
            require_keys=arguments.require_keys,
            trusted_proxies=arguments.trusted_proxy,
        )
    return OK


def _require_home(catalog: Catalog) -> None:
    """Refuse to serve where nothing could be kept: every change would be refused."""
    home = Path(catalog.data_directory)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = "" if os.access(home, os.W_OK | os.X_OK) else "it cannot be written"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise InvalidConfiguration(f"{home} cannot be used: {reason}", hint="set SKILLYARD_HOME to a folder you own")


def _require_queue(catalog: Catalog) -> None:
    """Refuse to serve where every run would be refused."""
    from skillyard.engine import EngineSettings

    if EngineSettings.of(catalog.configuration).kind == "procrastinate" and not catalog.records().may_have_workers:
        message = "the engine procrastinate needs its records in PostgreSQL"
        raise UsageProblem(message, hint="add --database-url postgresql://…, or serve with --engine local")


def _open(roots: list[str] | None, project: str | None, *, cache: bool) -> tuple[Catalog, Registry]:
    from skillyard.library import Catalog

    return _with_registry(Catalog.discover(roots=roots, cwd=project, cache=cache, installed=True))


def _with_registry(catalog: Catalog) -> tuple[Catalog, Registry]:
    from skillyard.registry import Registry

    return catalog, Registry.of(catalog, scanner=make_scanner(catalog))


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `worker`."""
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME",
        help="the pool to work for, may be repeated (default: the pool of all runs, if they are queued)",
    )
    parser.add_argument(
        "--concurrency", type=parse_positive, default=1, metavar="N", help="the number of runs at once (default: %(default)s)"
    )
    parser.add_argument(
        "--grace",
        type=parse_positive,
        default=600,
        metavar="SECONDS",
        help="on shutdown, how long runs may take to end (default: %(default)s)",
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--organisation", metavar="NAME", help="the organisation whose runs to execute (default: the server's own)"
    )
    whose.add_argument(
        "--all-organisations", action="store_true", help="execute the runs of all organisations, also of new ones, in turn"
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
            screen.note("stopping: waiting for work in progress; press again to stop at once")
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
        screen.note("stopped at once; work in progress is recorded as interrupted")


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
