"""`skillyard serve`: the HTTP service, for this machine or with keys for others."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.advice import scanner_of
from skillyard.cli.arguments import positive
from skillyard.cli.awaiting import telling_of_database
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import open_catalog
from skillyard.errors import InvalidConfiguration

if TYPE_CHECKING:
    from skillyard.library import Catalog
    from skillyard.registry import Registry

__all__ = ["add_arguments", "run"]

_GIVEN: Final = {"database_url": "SKILLYARD_DATABASE_URL", "store": "SKILLYARD_STORE", "engine": "SKILLYARD_ENGINE"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `serve` takes."""
    parser.add_argument("--host", default="127.0.0.1", help="an address to listen on; others than this machine's own need keys")
    parser.add_argument("--port", type=int, default=8787, help="0 is any free one (default: %(default)s)")
    parser.add_argument("--require-keys", action="store_true", help="ask also the users of this machine for a key")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that clients call this server by; repeatable",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="a proxy, or the network it is in, whose X-Forwarded-For and X-Forwarded-Proto are believed; repeatable",
    )
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="serve in N processes (default: %(default)s)")
    parser.add_argument(
        "--database-url",
        metavar="URL",
        help="where the records are; others on this machine see it, so give a password with SKILLYARD_DATABASE_URL instead",
    )
    parser.add_argument("--store", metavar="PLACE", help="where packages are kept: a folder, or s3://bucket/prefix")
    parser.add_argument(
        "--engine",
        choices=("local", "procrastinate"),
        help="where runs work: in this process, or with `skillyard worker` over PostgreSQL (default: as configured, local)",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="what is written for each request (default: text)"
    )
    parser.add_argument(
        "--grace",
        type=positive,
        default=30,
        metavar="SECONDS",
        help="when told to stop, give requests and runs so long to end (default: %(default)s)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=0,
        metavar="SECONDS",
        help="when told to stop, first go on so long and only say at /readyz that it stops (default: 0)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    try:
        from skillyard.database import database_url
        from skillyard.server import Listening, serve
    except ModuleNotFoundError as missing:
        packages = "'fastapi>=0.115' 'prometheus-client>=0.22' 'python-multipart>=0.0.20' 'sse-starlette>=3'"
        hint = f"pip install {packages} 'structlog>=25' 'uvicorn[standard]>=0.34'"
        raise UsageProblem(f"{missing.name} is not installed", hint=hint) from None

    for option, variable in _GIVEN.items():
        if given := getattr(arguments, option):
            os.environ[variable] = given  # for the other processes too
    screen = arguments.screen
    catalog = open_catalog(arguments, installed=True)
    database_url(catalog.data_directory, catalog.configuration.database_url)  # refuses what is none
    _require_home(catalog)
    _require_queue(catalog)
    many, processes = len(catalog), arguments.workers

    def ready(address: str) -> None:
        if screen.as_json:
            screen.data({"address": address})
        else:
            shared = f" with {processes} processes" if processes > 1 else ""
            screen.line(f"serving {many} skills on {address}{shared}; Ctrl-C ends it")
        sys.stdout.flush()

    how = Listening(workers=processes, drain_s=arguments.drain, grace_s=arguments.grace, log=arguments.log_format)
    again = functools.partial(_open, arguments.root, arguments.project, cache=not arguments.no_cache)
    opening = again if processes > 1 else functools.partial(_with_registry, catalog)
    with telling_of_database(catalog, screen):
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

    return catalog, Registry.of(catalog, scanner=scanner_of(catalog))
