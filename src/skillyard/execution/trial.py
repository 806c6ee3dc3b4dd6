"""Trying a skill out: its own test scripts, the examples it declares, and what its evals say without a model.

Everything that runs, runs in the sandbox and within the skill's own policy. A test script passes when it ends with exit code 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from skillyard.errors import FileMissing, SkillyardError
from skillyard.execution.executor import Executor
from skillyard.execution.kinds import scripts_in
from skillyard.execution.run import Run
from skillyard.execution.skill_call import RunRequest
from skillyard.paths import open_inside, read_inside
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import Skill


EVALS_FILE: Final = "evals/evals.json"

_LIMIT: Final = 1024 * 1024
_LISTS: Final = ("assertions", "expectations")


def check_evals(directory: str, name: str) -> list[tuple[str, str]]:
    """What was checked and what is wrong with it (empty: nothing), in the file's order; nothing without such a file."""
    try:
        value = json.loads(read_inside(directory, EVALS_FILE, limit=_LIMIT))
    except FileMissing:
        return []
    except (SkillyardError, ValueError, RecursionError) as error:
        return [(EVALS_FILE, f"it cannot be read: {error}")]
    evals = value.get("evals") if isinstance(value, dict) else None
    if not isinstance(evals, list):
        return [(EVALS_FILE, "it must be an object with a list `evals`")]
    declared = value.get("skill_name")
    wrong_name = "" if declared in (None, name) else f"skill_name is {declared!r}, the skill is {name!r}"
    return [(EVALS_FILE, wrong_name), *_each(directory, evals)]


def _each(directory: str, evals: list[object]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for index, item in enumerate(evals):
        if not isinstance(item, Mapping):
            yield f"{EVALS_FILE} #{index + 1}", "it is not an object"
            continue
        identity = str(item.get("id", index + 1))
        problems = [*_problems(directory, item), *(["its id is used twice"] if identity in seen else [])]
        seen.add(identity)
        yield f"{EVALS_FILE} #{identity}", "; ".join(problems)


def _problems(directory: str, item: Mapping[str, object]) -> Iterator[str]:
    if not _is_text(item.get("prompt")):
        yield "it has no prompt"
    expectations = [item.get(name) for name in _LISTS if item.get(name)]
    if not _is_text(item.get("expected_output")) and not expectations:
        yield "it says neither expected_output nor assertions"
    yield from (f"{name} must be a list" for name in _LISTS if not isinstance(item.get(name, []), list))
    files = item.get("files", [])
    if not isinstance(files, list):
        yield "files must be a list"
        return
    yield from (problem for file in files if (problem := _file_problem(directory, file)))


def _file_problem(directory: str, file: object) -> str:
    import os  # only for files that are named

    if not isinstance(file, str):
        return f"{file!r} is not a path"
    try:
        os.close(open_inside(directory, file))
    except SkillyardError as error:
        return error.message
    return ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


EXAMPLES_FILE: Final = "tests/examples.json"

_KEYS: Final = {"name", "input", "context", "entry", "output", "error"}
_SHOWN: Final = 200  # characters of a value in a sentence
_MAXIMUM: Final = 5  # differences that are named


class NotAnExample(ValueError):
    """An entry in the place of an example cannot be run."""


@dataclass(frozen=True, slots=True)
class Example:
    """One call and what must come of it.

    `output` is compared when `has_output`; `error` is the code of the error that is expected, or `True` for any.
    """

    name: str
    input: Mapping[str, object]
    context: Mapping[str, object] = field(default_factory=dict, hash=False)
    entry: str | None = None
    output: object = None
    has_output: bool = False
    error: str | bool = False


def read_examples_file(directory: str) -> list[object]:
    """The entries of `tests/examples.json`, none when there is no such file.

    Raises:
        NotAnExample: the file cannot be read as a list, or an object with a list `examples`.
    """
    try:
        value = json.loads(read_inside(directory, EXAMPLES_FILE, limit=_LIMIT))
    except FileMissing:
        return []
    except (SkillyardError, ValueError, RecursionError) as error:
        raise NotAnExample(f"{EXAMPLES_FILE} cannot be read: {error}") from None
    if isinstance(value, dict):
        value = value.get("examples")
    if not isinstance(value, list):
        raise NotAnExample(f"{EXAMPLES_FILE} must hold a list of examples")
    return value


def read_example(entry: object, name: str) -> Example:
    """The example in one entry: `input` (an object), and `output` or `error`; also `context`, `entry` and `name`.

    Raises:
        NotAnExample: with the reason.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("input"), Mapping):
        raise NotAnExample("it has no `input` object")
    context, script, error = entry.get("context", {}), entry.get("entry"), entry.get("error", False)
    if not isinstance(context, Mapping) or not isinstance(script, str | None) or not isinstance(error, str | bool):
        raise NotAnExample("`context` must be an object, `entry` a path, `error` a code or true")
    if unknown := sorted(str(key) for key in entry.keys() - _KEYS):
        raise NotAnExample(f"it has an unknown field: {', '.join(unknown)}")
    if ("output" in entry) == bool(error):
        raise NotAnExample("it must have either the expected `output` or the expected `error`")
    return Example(
        name=str(entry.get("name") or name),
        input=entry["input"],
        context=context,
        entry=script,
        output=entry.get("output"),
        has_output="output" in entry,
        error=error,
    )


def example_problem(example: Example, run: Run) -> str:
    """Why the run is not what the example says, empty when it is."""
    if example.error:
        if run.error is None:
            return f"an error was expected, but the skill answered {_shown(run.output)}"
        if example.error is not True and run.error.code != example.error:
            return f"the error {example.error} was expected, not {run.error.code}: {run.error.message}"
        return ""
    if run.error is not None:
        return f"{run.error.code}: {run.error.message}"
    problems = differences(example.output, run.output)
    return "; ".join(problems[:_MAXIMUM] + ([f"and {len(problems) - _MAXIMUM} more"] if len(problems) > _MAXIMUM else []))


def differences(expected: object, actual: object, path: str = "output") -> list[str]:
    """One sentence for each way in which `actual` is not `expected`.

    Objects may have more fields than are expected; lists and values must be the same. `true` is not `1`, but `1.0` is.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return [
            sentence
            for key, value in expected.items()
            for sentence in (
                differences(value, actual[key], f"{path}.{key}") if key in actual else [f"{path}.{key} is missing"]
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [sentence for index, (one, other) in pairs for sentence in differences(one, other, f"{path}[{index}]")]
    if expected == actual and isinstance(expected, bool) == isinstance(actual, bool):
        return []
    return [f"{path} is {_shown(actual)}, expected {_shown(expected)}"]


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_LOG: Final = 4_000  # characters of what a failed script wrote
_NAMED_TEST: Final = re.compile(r"\.(?:test|spec)\.[mc]?[jt]s$")
_NEVER_CALLED: Final = "it defines tests that nothing calls; end it with unittest.main(), or call them"


@dataclass(frozen=True, slots=True)
class Trial(WireForm):
    """One thing that was tried: `name` is a path in the skill or an example's name; `message` says why it failed.

    Of an example also its `input`, what was `expected` (an output, or `{"error": code}`), and what it `got`.
    """

    name: str
    kind: Literal["script", "example", "eval"]
    passed: bool
    message: str = ""
    log: str = ""
    duration_ms: int = 0
    input: object = field(default=None, hash=False, metadata=wire(omit_empty=True))
    expected: object = field(default=None, hash=False, metadata=wire(omit_empty=True))
    got: object = field(default=None, hash=False, metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class TrialReport(WireForm, also=("ok", "passed", "failed")):
    """Everything that was tried for one skill; `notes` says what was left out and why."""

    skill_id: str
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> Self:
        """The report whose plain data that is."""
        return cls(report["skill_id"], tuple(Trial(**trial) for trial in report["trials"]), tuple(report["notes"]))

    @property
    def ok(self) -> bool:
        """Whether something was tried and all of it passed."""
        return bool(self.trials) and all(trial.passed for trial in self.trials)

    @property
    def passed(self) -> int:
        """How many of them passed."""
        return sum(trial.passed for trial in self.trials)

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return len(self.trials) - self.passed


async def try_skill(
    skill: Skill,
    executor: Executor,
    *,
    name: str,
    declared: object = None,
    digest: str | None = None,
    tell: Callable[[Trial], Awaitable[None]] | None = None,
) -> TrialReport:
    """Run every test script in `tests/`, every declared example, and check `evals/evals.json`.

    `name` is the skill's declared name, `declared` what its front matter says under `examples`. With `digest` nothing runs
    but exactly that content. Each trial is given to `tell` when it is over.
    """
    notes: list[str] = []
    trials: list[Trial] = []

    async def keep(trial: Trial) -> None:
        trials.append(trial)
        if tell is not None:
            await tell(trial)

    for script in _tests_in(skill.directory):
        await keep(await _try_script(skill, executor, script, digest))
    async for trial in _try_examples(skill, executor, declared, digest, notes):
        await keep(trial)
    for what, problem in check_evals(skill.directory, name):
        await keep(Trial(what, "eval", not problem, problem))
    return TrialReport(skill.id, tuple(trials), tuple(notes))


def _tests_in(directory: str) -> list[str]:
    """The scripts in `tests/` that are tests; where some are named as Jest wants it, other JavaScript is their helpers."""
    scripts = [script for script in scripts_in(directory, "tests") if _is_test(script)]
    named = {script for script in scripts if _NAMED_TEST.search(script)}
    return [script for script in scripts if not named or script in named or script.endswith((".py", ".sh", ".bash"))]


def _is_test(path: str) -> bool:
    """Whether a script in `tests/` is a test by its name; what begins with `_` is a part of others."""
    name = PurePosixPath(path)
    return name.stem != "conftest" and not name.name.startswith("_")


async def _try_script(skill: Skill, executor: Executor, script: str, digest: str | None) -> Trial:
    if script.endswith(".py") and _is_never_called(Path(skill.directory, script)):
        return Trial(script, "script", passed=False, message=_NEVER_CALLED)
    try:
        run = await executor.run_test(skill, script, digest=digest)
    except SkillyardError as error:
        return Trial(script, "script", passed=False, message=error.sentence)
    if run.error is None:
        return Trial(script, "script", passed=True, duration_ms=run.duration_ms)
    message = run.error.message.partition("\n")[0]
    return Trial(script, "script", passed=False, message=message, log=_log(run), duration_ms=run.duration_ms)


def _is_never_called(path: Path) -> bool:
    """Whether a Python file only defines tests: as a plain script it would pass whatever it says."""
    import ast  # five milliseconds that only this needs

    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    defines = any(
        (isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test"))
        or (isinstance(item, ast.ClassDef) and item.name.startswith("Test"))
        for item in body
    )
    quiet = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    texts = [item for item in body if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)]
    return defines and all(isinstance(item, quiet) or item in texts for item in body)


async def _try_examples(
    skill: Skill, executor: Executor, declared: object, digest: str | None, notes: list[str]
) -> AsyncIterator[Trial]:
    """The examples of the front matter, where a text is no example to run, and those of `tests/examples.json`."""
    for index, entry in enumerate(declared if isinstance(declared, list) else ()):
        name = f"examples #{index + 1}"
        try:
            read_example(entry, name)
        except NotAnExample as reason:
            notes.append(f"{name} was not run: {reason}")
        else:
            yield await _try_example(skill, executor, entry, name, digest)
    try:
        entries = read_examples_file(skill.directory)
    except NotAnExample as reason:
        yield Trial(EXAMPLES_FILE, "example", passed=False, message=str(reason))
        return
    for index, entry in enumerate(entries):
        yield await _try_example(skill, executor, entry, f"{EXAMPLES_FILE} #{index + 1}", digest)


async def _try_example(skill: Skill, executor: Executor, entry: object, name: str, digest: str | None) -> Trial:
    try:
        example = read_example(entry, name)
    except NotAnExample as reason:
        return Trial(name, "example", passed=False, message=str(reason))
    try:
        run = await executor.run(RunRequest(skill, example.input, example.context, example.entry, digest))
    except SkillyardError as error:
        return Trial(example.name, "example", passed=False, message=error.sentence, input=example.input)
    problem = example_problem(example, run).partition("\n")[0]
    log = _log(run) if problem else ""
    expected = {"error": example.error} if example.error else example.output
    got = {"error": run.error.code, "message": run.error.message} if run.error else run.output
    return Trial(example.name, "example", not problem, problem, log, run.duration_ms, example.input, expected, got)


def _log(run: Run) -> str:
    """The end of what the script wrote, standard error last."""
    return "\n".join(part for part in (run.stdout.strip(), run.stderr.strip()) if part)[-_LOG:]
