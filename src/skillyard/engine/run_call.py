"""The ports of an engine, and a run in one: its request, what the engine adds, the text for a worker, whether it is kept.

`RunCall` is the run inside a process; `write_request` and `read_request` pass it to a worker as a `WorkerRequest`.
`CachePolicy` says under which key and for how long a result is kept; a kept one is given as a run of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from skillyard.engine.run_record import RunRecord, recorded_format, recorded_limits
from skillyard.engine.slots import SlotRequest
from skillyard.errors import InvalidInput, SkillyardError
from skillyard.execution import (
    ONCE,
    RetryPolicy,
    Run,
    RunRequest,
    StepTrace,
    WorkFile,
    cache_seconds,
    result_cache_key,
    without_credentials,
)
from skillyard.plain_json import to_plain_json
from skillyard.times import MAX_RUN_MS
from skillyard.tracing import current_parent

if TYPE_CHECKING:
    from skillyard.catalog import Skill


class Runner(Protocol):
    """Executes one run without recording it; `skillyard.execution.Executor` is one."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Execute the request and return the result.

        Raises:
            SkillyardError: it could not be started.
        """


class Engine(Protocol):
    """Executes runs: each is recorded before it starts and ends in exactly one final state."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Execute the request, or return a cached result that is still valid, unless it is to be `fresh`.

        With a `workspace` the run works in this process. A result is only cached for a request without arguments, packages,
        files and a workspace.

        Raises:
            InvalidInput: the priority is not from -100 to 100.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the reason is in the record.
        """

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when none of that id does, or it has ended."""


_MOST_IMPORTANT: Final = 100
_LONGEST_CALLER: Final = 200


@dataclass(frozen=True, slots=True)
class RunCall:
    """One request in the engine; `pool` is where it was handed over to, `cache_policy` how its result is cached.

    `warnings` are those from before the run; one that is `recorded` has its row already. `attempt` is the number of
    this attempt, and `retry` decides whether another one may follow.
    """

    request: RunRequest
    cache_policy: CachePolicy | None = None
    pool: str | None = None
    warnings: tuple[str, ...] = ()
    recorded: bool = False
    attempt: int = 1
    retry: RetryPolicy = ONCE

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.request.run_id

    @property
    def skill(self) -> Skill:
        """The skill that runs."""
        return self.request.skill

    @property
    def must_run_here(self) -> bool:
        """Whether the run belongs to this machine, because of the folder that it works in."""
        return self.request.workspace is not None

    def with_request(self, **changes: Any) -> RunCall:
        """The call with these fields of its request replaced."""
        return replace(self, request=replace(self.request, **changes))

    def slot_request(self, organisation: str) -> SlotRequest:
        """The request for a slot."""
        name = str(getattr(self.skill, "name", self.skill.id))
        return SlotRequest(organisation, name, self.skill.id, self.request.priority)

    def record(self) -> RunRecord:
        """The record of the run before it starts."""
        request = self.request
        return RunRecord(
            id=self.run_id,
            skill_id=self.skill.id,
            skill_name=str(getattr(self.skill, "name", self.skill.id)),
            kind=self.skill.kind,
            state="queued",
            created_at=datetime.now(UTC),
            entry=request.entry,
            digest=self.cache_policy.digest if self.cache_policy else request.digest,
            parameters=request.parameters,
            context=request.context,
            arguments=request.arguments,
            packages=request.packages,
            priority=request.priority,
            schedule=request.schedule,
            version=getattr(self.skill, "version", None),
            interface=request.origin.interface,
            caller=request.origin.caller or _user(request.context),
            agent=request.origin.agent,
        )


def _user(context: Mapping[str, object]) -> str | None:
    user = context.get("userId")
    return user[:_LONGEST_CALLER] if isinstance(user, str) and user else None


def new_call(request: RunRequest) -> RunCall:
    """The call of a request that an engine gets.

    Raises:
        InvalidInput: its priority is not from -100 to 100.
    """
    check_priority(request.priority)
    return RunCall(request)


def check_priority(priority: int) -> int:
    """The priority, checked.

    Raises:
        InvalidInput: it is not from -100 to 100.
    """
    if -_MOST_IMPORTANT <= priority <= _MOST_IMPORTANT:
        return priority
    hint = f"from -{_MOST_IMPORTANT} to {_MOST_IMPORTANT}; 0 is the default"
    raise InvalidInput(f"{priority} is not a valid priority", hint=hint)


_KINDS: Final = {"skill": str, "digest": str, "parameters": dict, "context": dict, "timeout_ms": int}


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A run that was handed over: the skill by its id and content digest, and the call's arguments.

    `parent` is the span that it was asked for in, as a `traceparent`, where the caller collects spans.
    """

    skill: str
    digest: str
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    entry: str | None
    timeout_ms: int
    warnings: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    parent: str = ""

    def run_request(
        self, skill: Skill, run_id: str, finished: tuple[StepTrace, ...], files: tuple[WorkFile, ...]
    ) -> RunRequest:
        """The request again, now that the skill is found and its files are here."""
        return RunRequest(
            skill, self.parameters, self.context, self.entry, self.digest, self.arguments, self.packages, files,
            run_id=run_id, finished=finished,
        )  # fmt: skip


def write_request(call: RunCall, *, timeout_ms: int) -> str:
    """The request as text that any database stores, without its files and what may be a credential in the context.

    Raises:
        InvalidInput: the parameters are no JSON.
    """
    request = call.request
    context, warnings = without_credentials(request.context)
    values = {
        "skill": request.skill.id,
        "digest": request.digest,
        "parameters": request.parameters,
        "context": context,
        "entry": request.entry,
        "timeout_ms": timeout_ms,
        "warnings": warnings,
        "arguments": request.arguments,
        "packages": request.packages,
    } | ({"parent": parent} if (parent := current_parent()) else {})
    try:
        return json.dumps(values, allow_nan=False, default=to_plain_json)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the parameters cannot be written as JSON: {error}", hint="give plain JSON values") from None


def read_request(text: str) -> WorkerRequest:
    """The request that `write_request` wrote.

    Raises:
        InvalidInput: it is none; a caller of another version may have written it.
    """
    try:
        values = json.loads(text)
        if not all(isinstance(values[name], kind) for name, kind in _KINDS.items()):
            raise TypeError("it names no skill to run")
        if not isinstance(values.get("entry"), str | None) or not 0 < values["timeout_ms"] <= MAX_RUN_MS:
            raise ValueError("it runs nothing, or for longer than anything may")
        values["parent"] = str(values.get("parent", ""))
        lists = {name: tuple(map(str, values.get(name, ()))) for name in ("warnings", "arguments", "packages")}
        return WorkerRequest(**values | lists)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"the request of this run cannot be read: {type(error).__name__}: {error}",
            hint="let callers and workers have the same version of skillyard",
        ) from None


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """That a result may be kept `seconds` under `key`, when it comes of exactly the content `digest`."""

    key: str
    seconds: int
    digest: str


def cache_policy_of(request: RunRequest) -> CachePolicy | None:
    """How the result of this run is cached, None when it is not; a skill that cannot be read is for the run to report."""
    try:
        seconds = cache_seconds(request.skill)
        if not seconds:
            return None
        content = request.digest or request.skill.digest()
        key = result_cache_key(request, content)
    except (SkillyardError, OSError):
        return None
    return None if key is None else CachePolicy(key, seconds, content)


def remaining_cache_seconds(cache_policy: CachePolicy, skill: Skill) -> int:
    """How many seconds the result may be kept now that the run has ended; 0 when the skill has changed meanwhile."""
    try:
        same = skill.digest() == cache_policy.digest
    except (SkillyardError, OSError):
        return 0
    return cache_policy.seconds if same else 0


def run_from_cache(record: RunRecord, run_id: str, skill_id: str) -> Run:
    """A kept result as the run `run_id`, with the steps, limits and sandbox of the run that made it.

    Nothing was started for it, no tokens were used, and nothing is to be remembered once more.
    """
    return Run(
        run_id=run_id,
        skill_id=skill_id,
        status="ok",
        output=record.output,
        format=recorded_format(record),
        message=record.message,
        steps=record.steps,
        limits=recorded_limits(record),
        isolation=record.isolation or "none",
        warnings=record.warnings,
        cache_hit=True,
    )
