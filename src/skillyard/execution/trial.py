"""Trying a skill out: its own test scripts, the examples it declares, and what its evals say without a model.

Everything that runs, runs in the sandbox and within the skill's own policy. A test script passes when it ends with exit code 0.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from skillyard.errors import SkillyardError
from skillyard.execution.entry import ENDINGS
from skillyard.execution.evals import check_evals
from skillyard.execution.examples import (
    EXAMPLES_FILE,
    NotAnExample,
    read_example,
    read_examples_file,
    verdict,
)
from skillyard.execution.executor import Executor
from skillyard.execution.run import Run

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["Trial", "TrialReport", "try_skill"]

_NOT_TESTS: Final = ("__init__", "conftest")
_LOG: Final = 4_000  # characters of what a failed script wrote
_NEVER_CALLED: Final = "it defines tests that nothing calls; end it with unittest.main(), or call them"


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was tried: `name` is a path in the skill or an example's name; `message` says why it failed."""

    name: str
    kind: Literal["script", "example", "eval"]
    passed: bool
    message: str = ""
    log: str = ""
    duration_ms: int = 0

    def to_dict(self) -> dict[str, object]:
        """The trial as plain data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "passed": self.passed,
            "message": self.message,
            "log": self.log,
            "duration_ms": self.duration_ms,
        }


@dataclass(frozen=True, slots=True)
class TrialReport:
    """Everything that was tried for one skill; `notes` says what was left out and why."""

    skill_id: str
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something was tried and all of it passed."""
        return bool(self.trials) and all(trial.passed for trial in self.trials)

    def to_dict(self) -> dict[str, object]:
        """The report as plain data."""
        return {
            "ok": self.ok,
            "skill_id": self.skill_id,
            "passed": sum(trial.passed for trial in self.trials),
            "failed": sum(not trial.passed for trial in self.trials),
            "trials": [trial.to_dict() for trial in self.trials],
            "notes": list(self.notes),
        }


async def try_skill(
    skill: Skill, executor: Executor, *, name: str, declared: object = None, digest: str | None = None
) -> TrialReport:
    """Run every test script in `tests/`, every declared example, and check `evals/evals.json`.

    `name` is the skill's declared name, `declared` what its front matter says under `examples`. With `digest` nothing runs
    but exactly that content.
    """
    notes: list[str] = []
    trials = [await _try_script(skill, executor, script, digest) for script in _scripts(skill.directory)]
    trials += [trial async for trial in _try_examples(skill, executor, declared, digest, notes)]
    trials += [Trial(what, "eval", not problem, problem) for what, problem in check_evals(skill.directory, name)]
    return TrialReport(skill.id, tuple(trials), tuple(notes))


def _scripts(directory: str) -> list[str]:
    """The scripts directly in `tests/` that can run, by name; what begins with `_` is a part of others."""
    try:
        files = sorted(item.name for item in Path(directory, "tests").iterdir() if item.is_file())
    except OSError:
        return []
    paths = [PurePosixPath(name) for name in files]
    wanted = [path for path in paths if path.suffix.lower() in ENDINGS and path.stem not in _NOT_TESTS]
    return [f"tests/{path}" for path in wanted if not path.name.startswith("_")]


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
        run = await executor.run(skill, example.input, context=example.context, entry=example.entry, digest=digest)
    except NotAnExample as reason:
        return Trial(name, "example", passed=False, message=str(reason))
    except SkillyardError as error:
        return Trial(name, "example", passed=False, message=error.sentence)
    problem = verdict(example, run).partition("\n")[0]
    log = _log(run) if problem else ""
    return Trial(example.name, "example", not problem, problem, log, run.duration_ms)


def _log(run: Run) -> str:
    """The end of what the script wrote, standard error last."""
    return "\n".join(part for part in (run.stdout.strip(), run.stderr.strip()) if part)[-_LOG:]
