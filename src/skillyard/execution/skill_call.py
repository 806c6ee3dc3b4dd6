"""One call of a skill: its checked parameters, the context without credentials, the document it reads, its approved content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.document.schema_bounds import UnusableSchema
from skillyard.errors import InvalidInput, PermissionDenied, WorkProblem
from skillyard.execution.run import Run, RunError
from skillyard.execution.schema_validation import schema_problems
from skillyard.sandbox import Status

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Metadata
    from skillyard.execution.run import StepTrace


_CREDENTIALS: Final = ("apikey", "password", "token", "secret")
_DEEPEST: Final = 20


def without_credentials(context: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The context without keys that contain `apikey`, `password`, `token` or `secret`, and a warning that names them.

    Case, hyphens and underscores make no difference; mappings inside are looked at too.
    """
    removed: list[str] = []
    kept = _kept(context, "", removed, _DEEPEST)
    warnings = (f"removed from the context, for they may be credentials: {', '.join(removed)}",) if removed else ()
    return kept, warnings


def _kept(context: Mapping[str, object], prefix: str, removed: list[str], depth: int) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, value in context.items():
        name = f"{prefix}{key}"
        plain = str(key).lower().replace("-", "").replace("_", "")
        if any(word in plain for word in _CREDENTIALS) or depth == 0:
            removed.append(name)
        else:
            kept[key] = _kept(value, f"{name}.", removed, depth - 1) if isinstance(value, Mapping) else value
    return kept


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One request to run a skill, with what its SKILL.md says read once.

    `arguments` follow the script on its command line; `workspace` is the folder whose files it works on. `finished` are steps
    that an attempt before has done and that need not be done again.
    """

    run_id: str
    skill: Skill
    metadata: Metadata
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    warnings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    workspace: str = ""
    finished: tuple[StepTrace, ...] = ()

    def refused(self, code: str, message: str, *, status: Status = "error") -> Run:
        """A run that ended before anything was started."""
        return Run(self.run_id, self.skill.id, status, error=RunError(code, message), warnings=self.warnings)


async def check_call(call: SkillCall) -> SkillCall | Run:
    """The call, or the run that ends it because its parameters do not fit the skill's schema."""
    try:
        problems = await schema_problems(call.metadata.input_schema, dict(call.parameters))
    except UnusableSchema as error:
        return replace(
            call,
            warnings=(
                *call.warnings,
                f"input_schema is not a usable JSON Schema and was not checked: {error}",
            ),
        )
    except WorkProblem as error:
        message = f"the parameters could not be checked against input_schema: {error.sentence}"
        return call.refused(error.code, message)
    if problems:
        return call.refused("VALIDATION_FAILED", "; ".join(problems))
    return call


def request_document(call: SkillCall) -> bytes:
    """The one document the skill reads from standard input."""
    body: dict[str, object] = {"input": call.parameters, "context": call.context}
    if call.metadata.config:
        body["config"] = call.metadata.config
    if call.metadata.protocol == "abp":
        body["protocol"] = "abp"  # tells the SDK on which scale importance is meant
    if call.finished:
        body["finishedSteps"] = [step.to_dict() for step in call.finished]
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=dict).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the parameters cannot be written as JSON: {error}") from None


async def require_approved(digest: str | None, call: SkillCall) -> None:
    """Make sure that what was read of the skill is what was approved."""
    if digest is not None:
        import asyncio

        await asyncio.to_thread(verify_copy, digest, call, call.skill.directory)


def verify_copy(digest: str, call: SkillCall, copy: str) -> None:
    """Make sure that `copy` is what was approved, and that its own SKILL.md is the one the run's policy was taken from."""
    from skillyard.packages import tree_digest  # the one measure of a skill's content

    if tree_digest(copy) != digest or call.skill.document(copy=copy).metadata != call.metadata:
        raise PermissionDenied(
            "the skill is not what was approved: its content has changed", hint="look at it and approve it again"
        )
