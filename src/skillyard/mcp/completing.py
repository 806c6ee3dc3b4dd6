"""What a client may offer while somebody types an argument: the names of skills, and the files of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mcp import types

from skillyard.errors import SkillyardError
from skillyard.mcp.addresses import SCHEME
from skillyard.mcp.published import FILE_NAME_LIMIT
from skillyard.mcp.resources import TEMPLATE
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.mcp.published import PublishedSkills

__all__ = ["complete"]

_MOST: Final = 100  # as many as the protocol lets a server send


def complete(skills: PublishedSkills, params: types.CompleteRequestParams) -> types.CompleteResult:
    """The values that go on from what was typed, those that begin with it first; none where nobody knows any."""
    known: Iterable[str] = ()
    if isinstance(params.ref, types.ResourceTemplateReference) and params.ref.uri == TEMPLATE:
        if params.argument.name == "skill":
            known = ("/".join(published.path) for published in skills)
        elif params.argument.name == "path":
            given = params.context.arguments if params.context else None
            known = _files(skills, (given or {}).get("skill", ""))
    found = _fitting(known, params.argument.value)
    return types.CompleteResult(
        completion=types.Completion(values=found[:_MOST], total=len(found), has_more=len(found) > _MOST)
    )


def _files(skills: PublishedSkills, name: str) -> tuple[str, ...]:
    """The files of the skill that was chosen before."""
    try:
        published, _ = skills.locate(f"{SCHEME}{name}")
        return tuple(name for name in published.files() if single_line(name) == name and len(name) <= FILE_NAME_LIMIT)
    except (SkillyardError, OSError):
        return ()


def _fitting(known: Iterable[str], typed: str) -> list[str]:
    wanted = typed.casefold()
    found = [value for value in known if wanted in value.casefold()]
    return sorted(found, key=lambda value: (not value.casefold().startswith(wanted), value))
