"""`skillyard memories`: what was remembered, and forgetting it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.openers import open_home
from skillyard.cli.option_values import parse_positive
from skillyard.errors import RecordNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillyard.cli.screen import Screen
    from skillyard.memory import Memory, MemoryMatch, SqlMemoryService


def add_memories_arguments(parser: argparse.ArgumentParser) -> None:
    """What `memories` takes."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "search", "forget"), default="list", help="list (the default), search or forget"
    )
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="for search: the words to look for; for forget: the memory's id"
    )
    parser.add_argument("--user", metavar="ID", help="only memories of this user")
    parser.add_argument("--tag", action="append", metavar="TAG", default=[], help="for search: only with this tag; may repeat")
    parser.add_argument(
        "--threshold", type=_share, default=0.5, metavar="X", help="for search: fits at least so well, 0 to 1 (default: 0.5)"
    )
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many (default: %(default)s)"
    )


def memories_command(arguments: argparse.Namespace) -> int:
    """List, search or forget."""
    import asyncio

    if (arguments.action == "list") != (arguments.text is None):
        hint = "`skillyard memories`, `skillyard memories search TEXT` or `skillyard memories forget ID`"
        raise UsageProblem("which memories?", hint=hint)
    return asyncio.run(_do(arguments, open_home(arguments).memory()))


async def _do(arguments: argparse.Namespace, service: SqlMemoryService) -> int:
    screen: Screen = arguments.screen
    if arguments.action == "forget":
        await _forget(arguments, service)
    elif arguments.action == "search":
        recalled = await service.recall(
            arguments.text, user_id=arguments.user, limit=arguments.limit, threshold=arguments.threshold, tags=arguments.tag
        )
        _show(screen, [item.to_dict() for item in recalled], list(_rows(recalled)))
    else:
        found = await service.list(user_id=arguments.user, limit=arguments.limit)
        _show(screen, [memory.to_dict() for memory in found], [_row(memory) for memory in found])
    return OK


async def _forget(arguments: argparse.Namespace, service: SqlMemoryService) -> None:
    if not await service.forget(arguments.text, user_id=arguments.user):
        raise RecordNotFound(f"there is no memory {arguments.text!r}", hint="`skillyard memories` lists them with their ids")
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"forgotten": arguments.text})
    else:
        screen.line(f"forgot {arguments.text}")


def _show(screen: Screen, data: list[dict[str, object]], rows: list[tuple[str, ...]]) -> None:
    if screen.as_json:
        screen.data({"memories": data})
    elif rows:
        header = ("FIT",) if len(rows[0]) == 6 else ()
        screen.table(rows, header=(*header, "MEMORY", "OWNER", "TYPE", "WEIGHT", "CONTENT"), stretch=len(header) + 4)
    else:
        screen.note("no memories")


def _rows(recalled: tuple[MemoryMatch, ...]) -> Iterator[tuple[str, ...]]:
    for item in recalled:
        yield (f"{item.score:.2f}", *_row(item.memory))


def _row(memory: Memory) -> tuple[str, ...]:
    return memory.id or "", " ".join(memory.owner), memory.type, f"{memory.importance:.2f}", memory.content


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return share
