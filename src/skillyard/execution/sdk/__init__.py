"""What a skill's Python script may import as `skillyard_sdk` while it runs: steps, memory suggestions, the context, failure.

::

    from skillyard_sdk import context, fail, remember, step

    @step("clean")
    def clean(rows): ...

    async def execute(parameters):
        with step("read", input={"count": len(parameters["rows"])}) as current:
            current.output = rows = [row for row in parameters["rows"] if row]
        if not rows:
            fail("there is nothing to work on")
        remember("works with tables", type="fact", owner_id=context["userId"])
        return {"rows": clean(rows)}

The sandbox puts this file beside the script; it is never installed, imports nothing but the standard library and works on every
Python from 3.8. What is collected is added to what `execute` returns, which may be a plain value or an outcome of its own.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs more time than this whole file
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, Literal, NoReturn, TypeVar, overload

    MemoryType = Literal["preference", "fact", "event", "summary"]
    OwnerType = Literal["user", "household", "task", "group"]
    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["SkillFailed", "Step", "context", "fail", "remember", "step"]

_OWNERS = {"user": "userId", "household": "householdId", "task": "taskId", "group": "groupId"}
_LISTS = {
    "memoryWrites": ("memoryWrites", "memory_writes"),
    "intermediateSteps": ("intermediateSteps", "intermediate_steps", "steps"),
}
_OUTCOME = {
    "output", "format", "status", "message", "tokenUsage", "token_usage", "warnings", "error", *_LISTS["memoryWrites"],
    *_LISTS["intermediateSteps"],
}  # fmt: skip
_steps: list[dict[str, Any]] = []
_writes: list[dict[str, Any]] = []
# The program that runs the script keeps these two; without it, as in a test of one's own, they are empty.
context: Mapping[str, Any] = getattr(sys.modules.get("__main__"), "SKILL_CONTEXT", {})
"""The caller: `userId`, `sessionId` and what else the caller says; filled before `execute` is called."""
_settings: Mapping[str, Any] = getattr(sys.modules.get("__main__"), "SKILL_SETTINGS", {})
_note: Callable[[dict[str, Any]], None] | None = getattr(sys.modules.get("__main__"), "skill_note", None)


class SkillFailed(Exception):
    """Raised by `fail`; the run ends as failed with its message and without a traceback."""


def fail(message: str) -> NoReturn:
    """End the run as failed, with one sentence for the caller.

    Raises:
        SkillFailed: always; let it pass.
    """
    raise SkillFailed(message)


def remember(
    content: str,
    type: MemoryType = "preference",  # noqa: A002 # the field's own name
    importance: float = 3,
    owner_type: OwnerType = "user",
    owner_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Suggest to remember `content`; the host checks it and keeps it when the run succeeds.

    `importance` goes from 1 (passing) to 5 (must never be forgotten), whatever the skill's protocol. Without `owner_id` the
    owner is the one the context names for `owner_type` (its `userId`, `householdId`, `taskId` or `groupId`).
    """
    owner = owner_id if owner_id is not None else context.get(_OWNERS.get(owner_type, ""), "anonymous")
    _writes.append({
        "ownerType": owner_type,
        "ownerId": str(owner),
        "type": type,
        "importance": importance / 5 if _settings.get("protocol") == "abp" else importance,
        "content": content,
        "metadata": dict(metadata or {}),
    })  # fmt: skip


class Step:
    """One step of the work; set `output` (and `input`) while it lasts.

    `finished` says that an attempt before has done it with the same `input`, in a skill that declares it idempotent: its
    `output` is there already.
    """

    __slots__ = ("_began", "_record", "finished", "id", "input", "name", "output")

    def __init__(self, name: str, input: object = None, *, id: str | None = None) -> None:  # noqa: A002 # the field's own name
        self.name, self.input, self.id = name, input, id
        self.output: object = None
        self.finished = False
        self._record: dict[str, Any] = {}
        self._began = 0.0

    def __enter__(self) -> Step:  # noqa: PYI034 # Self is not in Python 3.8
        """Begin: the step has its position in the order from now on."""
        earlier = _done_before(self.name, self.input)
        if earlier is not None:
            self.finished, self.output, self._record = True, earlier.get("output"), earlier
            _steps.append(earlier)
            return self
        self._record = {"stepId": self.id or f"step-{len(_steps) + 1}", "timestamp": round(time.time() * 1000)}
        _steps.append(self._record)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None) -> None:
        """End: what was recorded is kept, and an error propagates."""
        if self.finished:
            return
        self._record.update(
            stepName=self.name,
            input=self.input,
            output=self.output,
            duration=round((time.perf_counter() - self._began) * 1000, 3),
        )
        if error is not None:
            self._record["error"] = {"name": type(error).__name__, "message": str(error)}
        if _note is not None:
            _note(self._record)

    async def __aenter__(self) -> Step:  # noqa: PYI034 # the same
        """As `with`."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        """As `with`."""
        self.__exit__(kind, error, frames)

    def __call__(self, function: Function) -> Function:
        """The function with every call traced as a step of this name."""
        import functools
        import inspect

        name, fixed = self.name, self.id

        @functools.wraps(function)
        def traced(*values: Any, **named: Any) -> Any:
            with Step(name, _arguments(values, named), id=fixed) as current:
                if not current.finished:
                    current.output = function(*values, **named)
                return current.output

        @functools.wraps(function)
        async def traced_async(*values: Any, **named: Any) -> Any:
            with Step(name, _arguments(values, named), id=fixed) as current:
                if not current.finished:
                    current.output = await function(*values, **named)
                return current.output

        return traced_async if inspect.iscoroutinefunction(function) else traced  # type: ignore[return-value] # wraps


if TYPE_CHECKING:

    @overload
    def step(name: str, input: object = None, *, id: str | None = None) -> Step: ...
    @overload
    def step(name: Function) -> Function: ...
    def step(name: Any, input: object = None, *, id: str | None = None) -> Any: ...  # noqa: A002, D103 # below

else:

    def step(name, input=None, *, id=None):  # noqa: A002
        """Trace one step of the work, with its input, output, duration and error.

        `with step("validate", input=value) as current:` (also `async with`), then set `current.output`. As a decorator, `@step`
        or `@step("name")`, it traces every call of a function, sync or async, with its arguments and what it returns; a call
        that an attempt before has finished is not made again, where the skill declares the step idempotent.
        """
        if callable(name):
            return Step(getattr(name, "__name__", "step"))(name)
        return Step(name, input, id=id)


def _done_before(name: str, input: object) -> dict[str, Any] | None:  # noqa: A002 # the field's own name
    """The step of that name and input that an attempt before has finished; each is given once."""
    waiting = _settings.get("finishedSteps", [])
    for step in waiting:
        if step.get("stepName") == name and _same(step.get("input"), input):
            waiting.remove(step)
            return step  # type: ignore[no-any-return] # as it was passed in
    return None


def _same(recorded: object, given: object) -> bool:
    import json

    try:
        return recorded == given or recorded == json.loads(json.dumps(given))
    except (TypeError, ValueError):
        return False


def _arguments(values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if len(values) == 1 and not named:
        return values[0]
    return {**{str(index): value for index, value in enumerate(values)}, **named}


def _collected() -> dict[str, list[dict[str, Any]]]:
    """The lists that are not empty, by the names of an outcome; a step that never ended has its name only."""
    ended = [{"stepName": record["stepId"], **record} for record in _steps]
    return {name: items for name, items in (("memoryWrites", _writes), ("intermediateSteps", ended)) if items}


def _is_outcome(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= _OUTCOME
        and ("output" in value or value.get("status") in ("success", "error"))
    )


def _outcome(value: object) -> object:
    """What `execute` returned, with everything that was collected; its own entries come first."""
    collected = _collected()
    if not collected:
        return value
    outcome = dict(value) if _is_outcome(value) else {"output": value}  # type: ignore[call-overload] # checked
    for name, items in collected.items():
        given = [outcome.pop(alias) for alias in _LISTS[name] if alias in outcome]
        outcome[name] = [*(item for own in given if isinstance(own, (list, tuple)) for item in own), *items]
    return outcome


def _failure(error: BaseException) -> dict[str, Any]:
    """The outcome of a run that an error ended: its steps stay, its suggestions do not."""
    return {"status": "error", "message": str(error), "intermediateSteps": _collected().get("intermediateSteps", [])}
