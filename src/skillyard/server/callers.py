"""Who asks, for which organisation, and what they may do: each route says which scope it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import Depends, Request

from skillyard.errors import PermissionDenied

__all__ = ["LOCAL_USER", "Asking", "Caller", "Scope", "needs"]

Scope = Literal["skills:read", "skills:write", "runs:execute", "admin"]
"""`skills:read` looks at skills and runs, `skills:write` changes skills and agents, `runs:execute` starts runs and keeps
memories, `admin` may all of that and manages keys, approvals and the trail of what was done."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks: `name` stands in the audit trail, `organisation` says whose skills, runs and memories are meant."""

    name: str
    organisation: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; `admin` has every one."""
        return scope in self.scopes or "admin" in self.scopes


LOCAL_USER: Final = Caller("local user", "default", frozenset(get_args(Scope)))


async def _caller(request: Request) -> Caller:
    found = request.state.caller
    assert isinstance(found, Caller)  # noqa: S101 # the guard puts it there
    return found


Asking = Annotated[Caller, Depends(_caller)]


def needs(scope: Scope) -> Any:
    """The dependency of a route, or of all routes of a router, that only callers with `scope` may use.

    Raises:
        PermissionDenied: at the request, when the caller has not got the scope.
    """

    async def check(caller: Asking) -> None:
        if not caller.may(scope):
            raise PermissionDenied(f"this needs the scope {scope}", hint="use a key that has it")

    return Depends(check)
