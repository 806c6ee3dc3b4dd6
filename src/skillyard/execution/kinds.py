"""The kinds of skills, what replaces a kind that cannot be used here, and the skills of kind `static`, whose output is a file.

A kind is only replaced while nothing has run: it is not set up, or nobody answers. What ran and failed has failed, and what a
policy refuses stays refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillyard.errors import NotExecutable, SkillyardError
from skillyard.execution.outcome import SkillOutcome
from skillyard.execution.run import RunError
from skillyard.paths import read_inside
from skillyard.plain_json import read_json
from skillyard.sandbox import Status

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
    """A kind cannot be used here and nothing of it has run; `error` is what to raise when nothing stands in."""

    def __init__(self, kind: str, reason: str, *, error: SkillyardError | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.error = error


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a kind that runs outside the sandbox came to: an outcome, or an error with the output it left."""

    outcome: SkillOutcome
    status: Status = "ok"
    error: RunError | None = None
    warnings: tuple[str, ...] = ()


def failed_answer(code: str, message: str, *, status: Status = "error", outcome: SkillOutcome | None = None) -> RemoteAnswer:
    """An answer that is a failure."""
    return RemoteAnswer(outcome or SkillOutcome(None, "void"), status, RunError(code, message))


def fallback_kinds(kind: str) -> tuple[str, ...]:
    """The kind and those that stand in for it, in the order they are tried; none comes twice."""
    order: list[str] = []
    waiting = [kind if kind in _FALLBACKS else "direct"]
    while waiting:
        name = waiting.pop(0)
        same = _SCRIPTS if name in _SCRIPTS else (name,)
        if not any(known in order for known in same):
            order.append(name)
            waiting = [*_FALLBACKS[name], *waiting]
    return tuple(order)


def fallback_warning(first: KindUnavailable, used: str) -> str:
    """What a run says that another kind did the work."""
    return f"the kind {first.kind} is unavailable ({first.reason}); {used} was used in its place"


def unavailable_message(reasons: Sequence[KindUnavailable]) -> str:
    """Why a skill of a kind cannot be run, with what keeps the others from standing in."""
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

    The path is inside the skill's folder and nowhere else (defect D-21).

    Raises:
        NotExecutable: no path is declared, or the file is not what the format says.
        PathRefused: the path leaves the skill.
        FileMissing: there is no such file.
        FileTooLarge: it is over 10 MiB.
    """
    path = _path(config)
    if not isinstance(path, str):
        raise NotExecutable(
            "a static skill needs config.dataPath", hint="name a file of the skill, for example ./assets/data.json"
        )
    data = read_inside(directory, path, limit=_LIMIT)
    try:
        text = data.decode("utf-8-sig")
        return text if config.get("format", "json") == "text" else read_json(text)
    except ValueError as error:
        raise NotExecutable(f"{path!r} cannot be read: {error}", hint="use UTF-8 JSON, or set config.format to text") from None
