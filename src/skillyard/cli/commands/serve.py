"""`skillyard serve`: the HTTP service, for this machine or with keys for others."""

from __future__ import annotations

import argparse
import sys

from skillyard.cli.advice import scanner_of
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import open_catalog

__all__ = ["add_arguments", "run"]


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


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    try:
        from skillyard.server import serve
    except ModuleNotFoundError as missing:
        raise UsageProblem(f"{missing.name} is not installed", hint="pip install 'skillyard[server]'") from None
    from skillyard.registry import Registry

    screen = arguments.screen
    catalog = open_catalog(arguments)
    registry = Registry.of(catalog, scanner=scanner_of(catalog))

    def ready(address: str) -> None:
        if screen.as_json:
            screen.data({"address": address})
        else:
            screen.line(f"serving {len(catalog)} skills on {address}; Ctrl-C ends it")
        sys.stdout.flush()

    serve(
        catalog,
        registry,
        host=arguments.host,
        port=arguments.port,
        ready=ready,
        allowed_hosts=arguments.allowed_host,
        require_keys=arguments.require_keys,
    )
    return OK
