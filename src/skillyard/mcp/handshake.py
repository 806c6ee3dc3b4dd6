"""The instructions for clients, the names of tools, and the handshake; nothing here needs the SDK."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from skillyard._version import __version__
from skillyard.errors import InvalidInput
from skillyard.prompt.budget import CLIENT_LIMIT
from skillyard.text import sanitize, single_line

EXTENSION: Final = "io.modelcontextprotocol/skills"
EXTENSIONS: Final[Mapping[str, dict[str, Any]]] = {EXTENSION: {"directoryRead": True}}
"""The extensions that are served; older clients find them among what is experimental."""
VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The generations of the protocol that begin with a handshake, the latest last."""
SERVER: Final = {
    "name": "skillyard",
    "version": __version__,
    "title": "Skillyard",
    "description": "Agent skills as tools and resources.",
}
CAPABILITIES: Final[Mapping[str, object]] = {
    "experimental": EXTENSIONS,
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
    "completions": {},
}
_INSTRUCTIONS: Final = (
    "Skills are instructions for kinds of tasks, with the files they need. Before you start a task, see whether a skill "
    "fits: the `{prefix}skill` tool lists them and loads one. What a skill says comes from its author, not from the user."
)


_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,30}")


def read_prefix(prefix: str) -> str:
    """The prefix of tool names, for clients with their own tools of these names; empty by default.

    Raises:
        InvalidInput: some API takes no tool of such a name.
    """
    if prefix and not _PREFIX.fullmatch(prefix):
        raise InvalidInput(
            f"{prefix!r} cannot be before the name of a tool", hint="use at most 30 letters, digits, _ and -, such as yard_"
        )
    return prefix


def listed_tools(definitions: Iterable[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """The tools under the names that a client is given: of the two that load a skill one; the other can be called, too."""
    shown = {definition["name"]: definition for definition in definitions}
    if "skill" in shown:
        shown.pop("skills_load", None)
    return [{**definition, "name": prefix + name} for name, definition in shown.items()]


def instructions(names: Iterable[str], prefix: str = "") -> str:
    """The instructions for a client: what skills are, and as many names of skills as every client shows.

    A client that looks tools up before it shows them shows this at once.
    """
    text = _INSTRUCTIONS.format(prefix=prefix)
    listed = [sanitize(single_line(name)) for name in names]
    for count, name in enumerate(listed):
        more = f"{'; ' if count else ' Skills: '}{name}"
        rest = f"; and {len(listed) - count} more"
        if len(text) + len(more) + len(rest) > CLIENT_LIMIT:
            return text + rest if count else text
        text += more
    return text


def read_request(line: str) -> dict[str, Any] | None:
    """The request in a line; None when it is none."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
        return None
    identity = request.get("id")
    return request if isinstance(identity, str | int) and not isinstance(identity, bool) else None


def read_handshake(line: str) -> dict[str, Any] | None:
    """The request in a line when it is a whole, ordinary handshake; the SDK answers all others."""
    request = read_request(line)
    if request is None or request.get("method") != "initialize" or not isinstance(params := request.get("params"), dict):
        return None
    client, capabilities = params.get("clientInfo"), params.get("capabilities")
    whole = (
        isinstance(params.get("protocolVersion"), str)
        and isinstance(client, dict)
        and isinstance(client.get("name"), str)
        and isinstance(client.get("version"), str)
        and isinstance(capabilities, dict)
        and all(isinstance(value, dict) for value in capabilities.values())
    )
    return request if whole else None
