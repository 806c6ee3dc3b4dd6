"""One request to run a skill, from the interface to the sandbox: parameters, context, approved content, and running it again.

What a skill declares about running again is retries, idempotent steps, and how long a result may be cached::

    config:
      retry: {attempts: 3, backoff: 2}
      idempotentSteps: [download, count]

Without a declaration nothing is tried again and no result is cached; of a kind that only reads (`static`, and a `service` that
is called by GET or HEAD) a run may start again when the process that executed it has ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NoReturn

from skillyard.document import UnusableSchema, schema_weight, value_weight
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError, WorkProblem
from skillyard.execution.run import Run, RunError, new_run_id
from skillyard.execution.run_inputs import WorkFile, check_travelling
from skillyard.sandbox import Status
from skillyard.text import shorten

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Metadata
    from skillyard.execution.run import StepTrace

MOST_PROBLEMS: Final = 10
_LONGEST_PROBLEM: Final = 1_000
_AT_ONCE: Final = 1_500
"""How many pairs of a part of the schema and one of the value are checked in this process: 40 ms at worst, mostly far less."""
_SECONDS: Final = 5.0
_MEMORY_MB: Final = 512


async def schema_problems(schema: Mapping[str, object] | None, value: object) -> tuple[str, ...]:
    """One sentence for each way in which `value` does not fit, at most ten; nothing is fetched for a reference.

    A check takes at most 5 seconds and 512 MiB.

    Raises:
        UnusableSchema: the schema cannot be used.
        WorkProblem: the check took too much time or memory, or no helper was free.
    """
    if not schema:
        return ()
    weight = schema_weight(schema)
    if weight is not None and weight * value_weight(value, _AT_ONCE) <= _AT_ONCE:
        return find_problems(dict(schema), value)
    from skillyard.offload import WorkLimits, run_in_helper_async

    limits = WorkLimits(seconds=_SECONDS, memory_mb=_MEMORY_MB)
    return await run_in_helper_async(find_problems, dict(schema), value, subject="a check against a schema", limits=limits)


def find_problems(schema: dict[str, object], value: object) -> tuple[str, ...]:
    """The check itself, which may take very long.

    Raises:
        UnusableSchema: the schema cannot be used.
    """
    import jsonschema_rs  # a native module that only a run with a schema needs

    try:
        # Patterns are matched in linear time: a schema is untrusted, and so is the value.
        validator = jsonschema_rs.validator_for(schema, retriever=_no_fetching, pattern_options=jsonschema_rs.RegexOptions())
        problems = []
        for error in validator.iter_errors(value):
            location = "/".join(str(part) for part in error.instance_path)
            problems.append(shorten(f"{location}: {error.message}" if location else error.message, _LONGEST_PROBLEM))
            if len(problems) == MOST_PROBLEMS:
                break
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(shorten(str(error), _LONGEST_PROBLEM)) from None
    return tuple(problems)


def with_defaults(schema: Mapping[str, object] | None, parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters with the schema's defaults for those that are absent."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return dict(parameters)
    missing = {name: item["default"] for name, item in properties.items() if isinstance(item, Mapping) and "default" in item}
    return missing | dict(parameters)


def _no_fetching(address: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to {address}")


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


Interface = Literal["library", "cli", "http", "mcp", "chat", "schedule", "event", "test", "eval"]
TRIAL_INTERFACES: Final[tuple[Interface, ...]] = ("test", "eval")
"""Their runs are tests and evaluations of a skill and no use of it: they are kept and in no report."""


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """Where a run is asked for: the interface, who asks, and the agent whose model asks.

    Without a `caller` it is the user whom the run's context names. It is recorded, and changes nothing of the run.
    """

    interface: Interface = "library"
    caller: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request to run a skill with these parameters, for one run; it travels whole from an interface to the sandbox.

    `context` says who calls (`userId`, `sessionId`, …). `entry` names another script of the skill, by its path or, as in
    `python -m`, as `package.module`. With `digest` (the content digest that was approved) nothing runs but exactly that
    content. `arguments` follow a script on its command line. `packages` are what this run gets beside what was granted to the
    skill: `pypdf>=5` of Python, `npm:docx`, `program:qpdf`.

    `workspace` is a folder of this machine: the script begins in a copy of it, and what it writes there is copied back; a skill
    that declares `security.filesystem: read-only` only reads it, and one that declares `none` does not get it. `files` are
    copied into an empty folder instead, and what the script makes there is in `Run.made`. A script that is named by `entry`,
    has `arguments`, or declares `read-write` begins in such a folder also without files.

    With `fresh` a cached result is not used. Of the runs of an organisation that wait, one with a higher `priority` (-100 to
    100) goes first. `schedule` is the name of the schedule that starts the run, `origin` where it is asked for, `run_id` the id
    under which it is recorded.

    The engine adds `unavailable`, why the skill's own kind cannot be used, so that only a fallback kind runs, and `finished`,
    the steps of an earlier attempt that need not be done again.

    Raises:
        InvalidInput: an argument, a package or a file cannot be one, there are too many, or files come with a workspace.
        FileTooLarge: the files are too large together.
    """

    skill: Skill
    parameters: Mapping[str, object] = field(default_factory=dict)
    context: Mapping[str, object] = field(default_factory=dict)
    entry: str | None = None
    digest: str | None = None
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    files: tuple[WorkFile, ...] = ()
    workspace: str | None = None
    fresh: bool = False
    priority: int = 0
    schedule: str | None = None
    origin: RunOrigin = RunOrigin()
    run_id: str = field(default_factory=new_run_id)
    unavailable: str | None = None
    finished: tuple[StepTrace, ...] = ()

    def __post_init__(self) -> None:
        if self.arguments or self.packages or self.files:
            check_travelling(self.arguments, self.packages, self.files)
        if self.files and self.workspace is not None:
            raise InvalidInput("files and a work folder exclude each other", hint="put the files into the work folder")

    @property
    def is_plain(self) -> bool:
        """Whether the request is only parameters and a context: its result depends on nothing else and may be kept."""
        return not (self.arguments or self.packages or self.files or self.workspace is not None)


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A request that is being executed, with what the skill's SKILL.md says read once."""

    request: RunRequest
    metadata: Metadata
    warnings: tuple[str, ...] = ()

    @property
    def skill(self) -> Skill:
        """The skill that runs."""
        return self.request.skill

    def refused(self, code: str, message: str, *, status: Status = "error") -> Run:
        """A run that ended before anything was started."""
        return Run(self.request.run_id, self.skill.id, status, error=RunError(code, message), warnings=self.warnings)


async def check_call(call: SkillCall) -> SkillCall | Run:
    """The call, or the run that ends it because its parameters do not fit the skill's schema."""
    try:
        problems = await schema_problems(call.metadata.input_schema, dict(call.request.parameters))
    except UnusableSchema as error:
        return replace(
            call, warnings=(*call.warnings, f"input_schema is not a usable JSON Schema and was not checked: {error}")
        )
    except WorkProblem as error:
        message = f"the parameters could not be checked against input_schema: {error.sentence}"
        return call.refused(error.code, message)
    if problems:
        return call.refused("VALIDATION_FAILED", "; ".join(problems))
    return call


def request_document(call: SkillCall) -> bytes:
    """The one document the skill reads from standard input."""
    body: dict[str, object] = {"input": call.request.parameters, "context": call.request.context}
    if call.metadata.config:
        body["config"] = call.metadata.config
    if call.metadata.protocol == "abp":
        body["protocol"] = "abp"  # says to the SDK on which scale importance is meant
    if call.request.finished:
        body["finishedSteps"] = [step.to_dict() for step in call.request.finished]
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=dict).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the parameters cannot be written as JSON: {error}") from None


async def require_approved(call: SkillCall) -> None:
    """Make sure that what was read of the skill is what was approved."""
    if call.request.digest is not None:
        import asyncio

        await asyncio.to_thread(verify_copy, call, call.skill.directory)


def verify_copy(call: SkillCall, copy: str) -> None:
    """Make sure that `copy` is what was approved, and that its own SKILL.md is the one the run's policy was taken from."""
    from skillyard.packages import tree_digest  # the one measure of a skill's content

    if tree_digest(copy) != call.request.digest or call.skill.document(copy=copy).metadata != call.metadata:
        raise PermissionDenied(
            "the skill is not what was approved: its content has changed", hint="review it and approve it again"
        )


_MOST: Final = 10
_LONGEST_S: Final = 3600.0
_READING: Final = ("GET", "HEAD")
_MAY_PASS: Final = ("error", "timeout", "killed")
_STAYS: Final = ("VALIDATION_FAILED", "COMPILATION_ERROR", "DEPENDENCY_RESOLUTION_ERROR", "kind_unavailable")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` all in all; with `failures` also when the skill has failed, not only when its process has ended.

    The second attempt waits `backoff_s` seconds, each later one twice as long as the one before. Steps named in `steps` that
    have ended well are not done again (None: none, an empty set: every step).
    """

    attempts: int = 1
    backoff_s: float = 1.0
    failures: bool = False
    steps: frozenset[str] | None = None

    def wait_s(self, run: Run, attempt: int) -> float | None:
        """How long the next attempt waits after the attempt of that number came to this; None when there is none."""
        if run.ok or not self.failures or attempt >= self.attempts or run.status not in _MAY_PASS:
            return None
        if run.error is not None and run.error.code in _STAYS:
            return None
        return min(self.backoff_s * float(2 ** min(attempt - 1, 20)), _LONGEST_S)

    def finished(self, steps: tuple[StepTrace, ...]) -> tuple[StepTrace, ...]:
        """Those of the steps that need not be done again."""
        if self.steps is None:
            return ()
        return tuple(step for step in steps if not step.error and (not self.steps or self._names(step)))

    def _names(self, step: StepTrace) -> bool:
        return self.steps is not None and bool(self.steps & {step.step_name, step.step_id})


ONCE: Final = RetryPolicy()


def retry_policy(skill: Skill) -> RetryPolicy:
    """What the skill declares; what is not valid counts as not declared."""
    try:
        config = skill.document().metadata.config
    except (SkillyardError, OSError):
        return ONCE
    steps = _steps(config.get("idempotentSteps", config.get("idempotent_steps")))
    declared = config.get("retry")
    if isinstance(declared, Mapping) and (attempts := _number(declared.get("attempts"), 1, _MOST)):
        backoff = _number(declared.get("backoff", 1), 0, _LONGEST_S)
        return RetryPolicy(int(attempts), 1.0 if backoff is None else backoff, failures=True, steps=steps)
    return RetryPolicy(3, steps=steps) if _only_reads(skill.kind, config) else ONCE


def _only_reads(kind: str, config: Mapping[str, object]) -> bool:
    return kind == "static" or (kind == "service" and str(config.get("method", "")).upper() in _READING)


def _number(value: object, least: float, most: float) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        return None
    return float(value)


def _steps(value: object) -> frozenset[str] | None:
    if value is True or value == "true":
        return frozenset()
    if isinstance(value, list) and value:
        return frozenset(str(name) for name in value)
    return None


_LONGEST: Final = 30 * 24 * 3600
_PASSING: Final = frozenset(
    {"callId", "conversationId", "messageId", "requestId", "runId", "sessionId", "spanId", "timestamp", "traceId"}
)


def cache_seconds(skill: Skill) -> int:
    """How many seconds a result of the skill may be kept; 0 for not at all, 30 days at most.

    Nothing is kept of a `preprocessor`, of a skill that declares neither `cacheable` nor `ttl`, says `cacheable: false`, or
    declares a `ttl` that is not above 0.
    """
    metadata = skill.document().metadata
    declares = not {"cacheable", "ttl"}.isdisjoint(metadata.declared)
    if skill.kind == "preprocessor" or not declares or not metadata.cacheable:
        return 0
    return max(0, min(metadata.ttl, _LONGEST))


def result_cache_key(request: RunRequest, digest: str) -> str | None:
    """`sha256:…` over everything a result depends on; None when that cannot be written as JSON.

    That is the skill's id and content `digest`, the requested entry, the parameters with the defaults of the schema,
    and the context but for what changes with every call: ids of sessions, conversations, messages, calls, requests, runs and
    traces, and the time. Whoever's result it is (`userId`, `householdId`, …) is part of the key, so nobody is given another's.
    """
    parameters = with_defaults(request.skill.document().metadata.input_schema, request.parameters)
    context = {name: value for name, value in request.context.items() if name not in _PASSING}
    try:
        text = json.dumps([request.skill.id, digest, request.entry, parameters, context], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
