"""`skillyard keys`: the API keys of the server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.durations import lifetime
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import open_database

if TYPE_CHECKING:
    from skillyard.access import ApiKey, Keys
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]

_SCOPES = ("skills:read", "skills:write", "runs:execute", "admin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `keys` takes."""
    parser.add_argument("action", nargs="?", choices=("list", "create", "revoke"), default="list", help="list is the default")
    parser.add_argument("key", nargs="?", metavar="NAME|ID", help="for create the name of the key, for revoke its id")
    parser.add_argument(
        "--scope", action="extend", nargs="+", choices=_SCOPES, metavar="SCOPE",
        help=f"for create, what the key lets somebody do: {', '.join(_SCOPES)}; admin may everything",
    )  # fmt: skip
    parser.add_argument("--organisation", metavar="NAME", help="whose skills the key is for (default: the server's own)")
    parser.add_argument("--expires", type=lifetime, metavar="TIME", help="for create, how long it holds: 12h, 90d, 4w")


def run(arguments: argparse.Namespace) -> int:
    """List, make or revoke."""
    if (arguments.action == "list") != (arguments.key is None) or (arguments.action == "create") != bool(arguments.scope):
        hint = "`skillyard keys list`, `skillyard keys create NAME --scope skills:read` or `skillyard keys revoke ID`"
        raise UsageProblem("which key?", hint=hint)
    if arguments.expires and arguments.action != "create":
        raise UsageProblem("only a new key gets a time", hint="leave --expires out")
    from skillyard.access import Keys

    database = open_database(arguments)
    keys = Keys(lambda: database)
    if arguments.action == "create":
        _create(arguments, keys)
    elif arguments.action == "revoke":
        _revoke(arguments.screen, keys.revoke(arguments.key, arguments.organisation))
    else:
        _list(arguments.screen, keys.all(arguments.organisation))
    return OK


def _create(arguments: argparse.Namespace, keys: Keys) -> None:
    from skillyard.access import DEFAULT

    screen: Screen = arguments.screen
    organisation = arguments.organisation or DEFAULT
    key, secret = keys.create(arguments.key, arguments.scope, organisation=organisation, lifetime=arguments.expires)
    if screen.as_json:
        screen.data({"key": key.to_dict(), "secret": secret})
        return
    screen.note(f"made {key.id} for {key.organisation}: {', '.join(key.scopes)}; keep what follows, it is not shown again")
    screen.line(secret)


def _revoke(screen: Screen, key: ApiKey) -> None:
    if screen.as_json:
        screen.data({"revoked": key.to_dict()})
    else:
        screen.line(f"revoked {key.name}: servers that run forget it within a second")


def _list(screen: Screen, keys: tuple[ApiKey, ...]) -> None:
    if screen.as_json:
        screen.data({"keys": [key.to_dict() for key in keys]})
    elif keys:
        rows = [
            (key.id, key.name, key.organisation, " ".join(key.scopes), key.state, str(key.to_dict()["last_used_at"] or "never"))
            for key in keys
        ]
        screen.table(rows, header=("ID", "NAME", "ORGANISATION", "SCOPES", "STATE", "LAST USED"), stretch=1)
    else:
        screen.note("no keys; `skillyard keys create NAME --scope skills:read` makes one")
