"""`skillyard check --as`: what other clients make of skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.cli.checking import find_targets
from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.text import nearest, shorten

if TYPE_CHECKING:
    import argparse

    from skillyard.cli.screen import Screen
    from skillyard.interop import Client, Loading

__all__ = ["check_loading"]


def check_loading(arguments: argparse.Namespace) -> int:
    """Tell for each skill and client whether it loads; 1 when one does not.

    Raises:
        UsageProblem: a client that nobody knows, or options that have no meaning with this.
    """
    from skillyard.interop import check_clients

    if arguments.fix or arguments.profile or arguments.package or arguments.collisions:
        raise UsageProblem("--as goes with no other way to check", hint="skillyard check PATH --as claude,codex")
    clients = _clients(arguments.clients)
    targets, _ = find_targets(arguments)
    found = [(target, check_clients(target.path, clients)) for target in targets]
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"skills": [{"path": str(t.path), "clients": [one.to_dict() for one in all_]} for t, all_ in found]})
    else:
        for target, loadings in found:
            screen.line(str(target.path), style="bold")
            for one in loadings:
                _draw(screen, one)
    return OK if all(one.loads for _, loadings in found for one in loadings) else FAILURE


def _clients(text: str) -> tuple[Client, ...]:
    from skillyard.interop import CLIENTS

    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen = tuple(client for client in CLIENTS if client in names or "all" in names)
    unknown = [name for name in names if name not in CLIENTS and name != "all"]
    if unknown or not chosen:
        near = nearest(unknown[0], CLIENTS, limit=1) if unknown else []
        hint = f"did you mean {near[0]}?" if near else f"all, or some of {', '.join(CLIENTS)}"
        raise UsageProblem(f"there is no client {unknown[0] if unknown else ''!r}", hint=hint)
    return chosen


def _draw(screen: Screen, one: Loading) -> None:
    answer = f"loads as {one.name}: {shorten(one.description, 80)}" if one.loads else "does not load it"
    screen.line(f"{one.client:10} {answer}", indent=2, style="ok" if one.loads else "error")
    for reason in (*one.problems, *one.notes):
        screen.line(f"- {reason}", indent=13)
