"""The kinds of skills, what replaces a kind that cannot be used here, and the skills of kind `static`, whose output is a file.

A kind is only replaced while nothing has run: it is not set up, or does not answer. What ran and failed has failed, and what a
policy refuses stays refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from skillyard.document import CODE_LANGUAGES, is_in_scripts
from skillyard.errors import FileMissing, NotExecutable, SkillyardError
from skillyard.execution.run import RunError, SkillOutcome, infer_format, read_outcome, unwrapped
from skillyard.paths import read_inside, safe_relative
from skillyard.plain_json import read_json
from skillyard.sandbox import Status

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Document
    from skillyard.sandbox import Policy


_FALLBACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "service": ("direct", "internal"),
    "distributed": ("service", "direct"),
    "direct": ("internal",),
    "preprocessor": ("internal",),
    "static": ("direct",),
    "internal": (),
}
# These run the skill's own script; after one of them the others would only do the same again.
_SCRIPTS: Final = ("direct", "preprocessor", "internal")


class KindUnavailable(Exception):
    """A kind cannot be used here and nothing of it has run; `error` is what to raise when there is no fallback."""

    def __init__(self, kind: str, reason: str, *, error: SkillyardError | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.error = error


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """The result of a kind that runs outside the sandbox: an outcome, or an error with the output it left."""

    outcome: SkillOutcome
    status: Status = "ok"
    error: RunError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One call outside the sandbox: the skill's `config` and parameters, what it may do, and the most the operator allows."""

    config: Mapping[str, object]
    parameters: Mapping[str, object]
    policy: Policy
    ceiling: Policy


def failed_answer(code: str, message: str, *, status: Status = "error", outcome: SkillOutcome | None = None) -> RemoteAnswer:
    """An answer that is a failure."""
    return RemoteAnswer(outcome or SkillOutcome(None, "void"), status, RunError(code, message))


def outcome_of_answer(value: object) -> SkillOutcome:
    """What an answer says: an object with `output` or `result` counts as an outcome, any other JSON is the output itself."""
    if isinstance(value, Mapping) and ("output" in value or "result" in value):
        return read_outcome(unwrapped(value))
    return SkillOutcome(value, infer_format(value))


def fallback_kinds(kind: str) -> tuple[str, ...]:
    """The kind and its fallbacks, in the order they are tried, without duplicates."""
    order: list[str] = []
    waiting = [kind if kind in _FALLBACKS else "direct"]
    while waiting:
        name = waiting.pop(0)
        same = _SCRIPTS if name in _SCRIPTS else (name,)
        if not any(member in order for member in same):
            order.append(name)
            waiting = [*_FALLBACKS[name], *waiting]
    return tuple(order)


def fallback_warning(first: KindUnavailable, used: str) -> str:
    """The warning of a run that another kind executed."""
    return f"the kind {first.kind} is unavailable ({first.reason}); {used} was used in its place"


def unavailable_message(reasons: Sequence[KindUnavailable]) -> str:
    """Why a skill of a kind cannot be run, with why its fallbacks cannot either."""
    first, *others = reasons
    more = "".join(f"; as {other.kind}: {other.reason}" for other in others)
    return f"this {first.kind} skill cannot be run here: {first.reason}{more}"


_LIMIT: Final = 10 * 1024 * 1024


def has_data(config: Mapping[str, object]) -> bool:
    """Whether a file is named."""
    return isinstance(_path(config), str)


def _path(config: Mapping[str, object]) -> object:
    return config.get("dataPath") or config.get("dataFile") or config.get("data_path")


def read_static(directory: str, config: Mapping[str, object]) -> object:
    """The content of `config.dataPath` (also `dataFile`), read as JSON unless `config.format` is `text`.

    The path is inside the skill's folder and nowhere else.

    Raises:
        KindUnavailable: no path is declared.
        NotExecutable: the file is not what the format says.
        PathRefused: the path leaves the skill.
        FileMissing: there is no such file.
        FileTooLarge: it is over 10 MiB.
    """
    path = _path(config)
    if not isinstance(path, str):
        hint = "name a file of the skill, for example ./assets/data.json"
        missing = NotExecutable("a static skill needs config.dataPath", hint=hint)
        raise KindUnavailable("static", "it has no config.dataPath", error=missing)
    data = read_inside(directory, path, limit=_LIMIT)
    try:
        text = data.decode("utf-8-sig")
        return text if config.get("format", "json") == "text" else read_json(text)
    except ValueError as error:
        raise NotExecutable(f"{path!r} cannot be read: {error}", hint="use UTF-8 JSON, or set config.format to text") from None


_NAMES: Final = ("execute", "main", "index", "run")
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
ENDINGS: Final = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".mts")


def find_entry(skill: Skill, document: Document, requested: str | None = None) -> str:
    """The script to run, as a path relative to the skill.

    In this order: the requested one, by its path or as `package.module`, `resources.entry`, `scripts/{execute,main,index,run}`
    with an ending that can run, the only script in `scripts/`. Code is run from a folder `scripts` and from nowhere else.

    Raises:
        NotExecutable: there is none, more than one and no rule to choose, or it is outside `scripts/`.
        PathRefused: the requested or declared path leaves the skill.
        FileMissing: the requested or declared script does not exist.
    """
    if requested is not None:
        return _existing(skill, _resolve_entry(skill, requested), "there is no script {path!r} in the skill")
    if document.metadata.resources.entry:
        return _existing(skill, document.metadata.resources.entry, "the declared entry {path!r} is not in the skill")
    if script := conventional_entry(skill.directory):
        return script
    raise _nothing_to_run(skill, document)


def is_module_name(requested: str, entry: str) -> bool:
    """Whether the entry was requested as `python -m` takes it, by the name of a module."""
    return entry != requested and entry in (f"{requested.replace('.', '/')}{ending}" for ending in (".py", "/__main__.py"))


def conventional_entry(directory: str) -> str | None:
    """The script that runs when none is declared, `None` when there is none or several could be meant."""
    scripts = Path(directory, "scripts")
    for name in _NAMES:
        for ending in ENDINGS:
            if (scripts / f"{name}{ending}").is_file():
                return f"scripts/{name}{ending}"
    alone = scripts_in(directory, "scripts")
    return alone[0] if len(alone) == 1 else None


def scripts_in(directory: str, folder: str) -> list[str]:
    """The scripts directly in a folder of the skill that can run, by name, as paths relative to the skill."""
    try:
        names = sorted(item.name for item in Path(directory, folder).iterdir() if item.is_file())
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if PurePosixPath(name).suffix.lower() in ENDINGS and name != "__init__.py"]


def _resolve_entry(skill: Skill, requested: str) -> str:
    """The script meant by a path: itself when it is there, else the only one of that name, with or without its ending."""
    if Path(skill.directory, safe_relative(requested)).is_file():
        return requested
    if _MODULE.fullmatch(requested):
        path = requested.replace(".", "/")
        for module in (f"{path}.py", f"{path}/__main__.py"):
            if Path(skill.directory, module).is_file():
                return module
    name = PurePosixPath(requested).name
    matches = [
        path for path in scripts_in(skill.directory, "scripts") if name in (PurePosixPath(path).name, PurePosixPath(path).stem)
    ]
    return matches[0] if len(matches) == 1 else requested


def _existing(skill: Skill, path: str, message: str) -> str:
    relative = safe_relative(path)
    if not Path(skill.directory, relative).is_file():
        raise FileMissing(
            message.format(path=relative), hint=_list_scripts(skill), candidates=scripts_in(skill.directory, "scripts")
        )
    if not is_in_scripts(relative):
        hint = f"move it to scripts/; {_list_scripts(skill)}"
        raise NotExecutable(f"{relative} is not in scripts/, where alone code of a skill is run", hint=hint)
    return relative


def _list_scripts(skill: Skill) -> str:
    scripts = scripts_in(skill.directory, "scripts")
    return f"its scripts: {', '.join(scripts[:10])}" if scripts else "the skill has no scripts"


def _nothing_to_run(skill: Skill, document: Document) -> NotExecutable:
    scripts = scripts_in(skill.directory, "scripts")
    if scripts:
        hint = f"name one with --entry, or as `entry`: {', '.join(scripts[:10])}; a skill declares its own in resources.entry"
        return NotExecutable("the skill has several scripts and declares no entry", hint=hint, candidates=scripts)
    if any(block.language in CODE_LANGUAGES for block in document.code_blocks):
        hint = (
            "`skillyard migrate --skill-dir FOLDER` moves code that is meant to run to scripts/; else follow its instructions"
        )
        return NotExecutable("the skill's code is inside SKILL.md, which is never run", hint=hint)
    return NotExecutable("the skill has no script to run", hint="follow its instructions instead, or add scripts/execute.py")
