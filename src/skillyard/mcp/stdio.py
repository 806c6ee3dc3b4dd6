"""MCP over standard input and output: what a client asks first is answered before the SDK is there.

The SDK takes a second to import, on a busy machine several. Clients give up on servers that are slow to answer `initialize`,
and begin a conversation without the tools of one that is slow to answer `tools/list`. So a server over standard input reads
the first messages itself: it answers the handshake of older clients, then, while the SDK is imported beside it, `ping` and
`tools/list`, as the SDK would. The SDK gets every message too, for its own state, and its answers to what was answered are
dropped.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Self

from skillyard.errors import SkillyardError
from skillyard.mcp.handshake import (
    CAPABILITIES,
    SERVER,
    VERSIONS,
    instructions,
    listed_tools,
    read_handshake,
    read_prefix,
    read_request,
)
from skillyard.permissions import Rules

if TYPE_CHECKING:
    from skillyard.catalog import Permission, SkillCatalog
    from skillyard.execution import Executor
    from skillyard.permissions import Approver
    from skillyard.tools import Language, SkillTools
    from skillyard.workspace import Workspace


class EarlyMessages:
    """What a client wrote before the SDK was there: its `lines`, and the ids in `answered` of the requests answered here."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.answered: list[str | int] = []

    @classmethod
    def begin(cls, names: Iterable[str], prefix: str = "") -> Self:
        """Read the first line of standard input and answer it when it is a handshake; `names` are those of the skills.

        Nothing is read where standard input is a terminal or has been replaced.
        """
        early = cls()
        try:
            if (sys.stdin.fileno(), sys.stdout.fileno()) != (0, 1) or sys.stdin.isatty() or not (line := _read_line()):
                return early
        except (OSError, ValueError, AttributeError):
            return early
        early.lines.append(line)
        request = read_handshake(line)
        if request is not None:
            wanted = request["params"]["protocolVersion"]
            early._answer(
                request["id"],
                {
                    "capabilities": CAPABILITIES,
                    "instructions": instructions(names, prefix),
                    "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
                    "serverInfo": SERVER,
                },
            )
        return early

    def answer_while_importing(self, tools: SkillTools, prefix: str = "") -> None:
        """Import the SDK in a thread, and until it is there answer what comes behind a handshake."""
        if not self.answered:
            return  # newer clients say with each request which generation they speak: the SDK knows those
        try:
            listed = {"tools": listed_tools(tools.definitions("mcp", abp_tools=True), prefix)}
        except SkillyardError:
            return  # the SDK gets the same bytes, and reports it
        with _imported_beside() as ready, suppress(OSError, ValueError):
            while ready not in (readable := select.select([0, ready], [], [])[0]) and readable:
                if not (line := _read_line()):
                    return
                self.lines.append(line)
                request = read_request(line) or {}
                if request.get("method") == "ping":
                    self._answer(request["id"], {})
                elif request.get("method") == "tools/list" and not _has_cursor(request.get("params")):
                    self._answer(request["id"], listed)

    def _answer(self, identity: str | int, result: Mapping[str, object]) -> None:
        left = json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}).encode() + b"\n"
        try:
            while left:
                left = left[os.write(1, left) :]
        except OSError:
            return  # nobody reads: the transport finds that out too
        self.answered.append(identity)


def _has_cursor(params: object) -> bool:
    return not (params is None or (isinstance(params, dict) and set(params) <= {"_meta"}))


@contextmanager
def _imported_beside() -> Iterator[int]:
    """A descriptor that can be read as soon as the SDK is imported; what is wrong with it shows when it is imported again."""
    ready, done = os.pipe()

    def load() -> None:
        try:
            with suppress(Exception):
                import_module("skillyard.mcp.transports")
        finally:
            os.close(done)

    loading = threading.Thread(target=load, daemon=True)
    loading.start()
    try:
        yield ready
    finally:
        loading.join()
        os.close(ready)


def serve_stdio(
    catalog: SkillCatalog,
    *,
    permissions: Mapping[str, Permission] | Rules | None = None,
    approver: Approver | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    run_skills: bool = True,
    language: Language = "en",
    watch: bool = True,
    user: str | None = None,
    workspace: Workspace | None = None,
    tool_prefix: str = "",
) -> None:
    """Serve until the client closes its end and has every answer; nothing but the protocol is written to standard output.

    The parameters are those of `SkillTools`; an `executor` may be made by a function, behind the handshake. One process may
    serve several conversations of one client, so a skill that is loaded again is given again. With `watch` changes in the
    skill folders are announced to the client. Runs are recorded as those of `user`. With a `workspace` its tools are offered
    too; its session ends with the connection. `tool_prefix` stands before the name of each tool.

    Raises:
        InvalidInput: that cannot be before the name of a tool.
    """
    prefix = read_prefix(tool_prefix)
    rules = permissions if isinstance(permissions, Rules) else Rules.for_catalog(catalog, permissions)
    offered = (skill for skill in catalog.all() if skill.offered and rules.rule(skill).permission != "deny")
    early = EarlyMessages.begin((skill.name for skill in offered), prefix)

    from skillyard.execution import RunOrigin  # the handshake has its answer by now
    from skillyard.tools import SkillTools

    tools = SkillTools(
        catalog,
        permissions=rules,
        approver=approver,
        executor=executor() if callable(executor) else executor,
        run_skills=run_skills,
        language=language,
        session="mcp",
        repeat="text",
        context={} if user is None else {"userId": user},
        workspace=workspace,
        origin=RunOrigin("mcp"),
    )
    early.answer_while_importing(tools, prefix)

    from skillyard.mcp.transports import run_stdio

    run_stdio(tools, workspace, watch=watch, lines=early.lines, answered=early.answered, tool_prefix=prefix)


def _read_line() -> str:
    """One line, a byte at a time: what comes behind it is for whoever reads standard input next."""
    read = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        read += byte
    return read.decode("utf-8", "replace")
