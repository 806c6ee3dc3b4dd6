"""Serving one catalog over standard input and output, for any MCP client on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog import Permission, SkillCatalog
    from skillyard.execution import Executor
    from skillyard.permissions import Approver, Rules
    from skillyard.tools import Language, SkillTools


def serve_stdio(
    catalog: SkillCatalog,
    *,
    permissions: Mapping[str, Permission] | Rules | None = None,
    approver: Approver | None = None,
    executor: Executor | None = None,
    run_skills: bool = True,
    language: Language = "en",
    watch: bool = True,
    user: str | None = None,
) -> None:
    """Serve until the client closes its end and has every answer; nothing but the protocol is written to standard output.

    The parameters are those of `SkillTools`. One process may serve several conversations of one client, so a skill that is
    loaded again is given again. With `watch` changes in the skill folders are announced to the client. Runs are recorded as
    those of `user`.
    """
    import asyncio

    from skillyard.tools import SkillTools

    tools = SkillTools(
        catalog,
        permissions=permissions,
        approver=approver,
        executor=executor,
        run_skills=run_skills,
        language=language,
        session="mcp",
        repeat="text",
        context={} if user is None else {"userId": user},
    )
    asyncio.run(_serve(tools, watch=watch))


async def _serve(tools: SkillTools, *, watch: bool) -> None:
    # The SDK and what it needs take most of a second to import: only who serves pays for it.
    from mcp.server.stdio import stdio_server

    from skillyard.mcp.request_drain import StdoutWatch, drain_requests
    from skillyard.mcp.server import create_server

    server = create_server(tools, watch=watch)
    with closing(StdoutWatch()) as outlet:
        async with stdio_server() as (read, written), drain_requests(read, written, outlet) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
