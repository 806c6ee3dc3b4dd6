"""Runs of skills chosen by a request: the preprocessors before a model is called, and the skill that matches an intent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.errors import (
    ExecutionProblem,
    FileProblem,
    InvalidInput,
    InvalidPolicy,
    NotExecutable,
    SkillNotFound,
    SkillyardError,
)
from skillyard.execution.run import Run, RunError, new_run_id
from skillyard.search import SearchIndex, search_skills
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.search import Match


RunSkill = Callable[["Skill", Mapping[str, object]], Awaitable[Run]]
_LEAST_CONFIDENCE: Final = 0.15
_LEAST_ALONE: Final = 0.12  # of a preprocessor, which is judged without any other skill to compare it with
_MOST_PREPROCESSORS: Final = 10
_HIDDEN: Final = wire(hidden=True)


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """One preprocessor that fitted a request, how surely (0 to 1), because of what, and its run."""

    skill: Skill
    confidence: float
    matched: tuple[str, ...]
    run: Run


@dataclass(frozen=True, slots=True)
class IntentRun(WireForm, also=("metadata",)):
    """The run of the skill that fitted an intent, and how surely (0 to 1), because of what.

    `skipped` has the ids of better matches that could not be started, with the reason of each.
    """

    skill: Skill = field(metadata=_HIDDEN)
    confidence: float = field(metadata=_HIDDEN)
    matched: tuple[str, ...] = field(metadata=_HIDDEN)
    run: Run = field(metadata=wire(inline=True))
    skipped: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=_HIDDEN)

    @property
    def metadata(self) -> dict[str, object]:
        """Why this skill was picked."""
        return {
            "confidence": self.confidence,
            "matchedSkill": self.skill.name,
            "matchedTriggers": list(self.matched),
            "skipped": dict(self.skipped),
        }


async def run_preprocessors(skills: Iterable[Skill], request: str, *, run: RunSkill) -> list[Preprocessed]:
    """Run every skill of kind `preprocessor` that fits `request`, the best first, one after the other, at most ten.

    Each gets the request as the parameter `request`, or as the only text that its `input_schema` requires. One that fails or
    cannot be started does not stop the others: its run has the error.
    """
    # Each is judged by itself: that another one fits better says nothing against it.
    indexes = (SearchIndex((skill,), everyone=True) for skill in skills if skill.kind == "preprocessor")
    matches = [match for index in indexes for match in search_skills(index, request, min_confidence=_LEAST_ALONE)]
    done = []
    for match in sorted(matches, key=lambda match: -match.confidence)[:_MOST_PREPROCESSORS]:
        try:
            outcome = await run(match.skill, _parameters(match.skill, request))
        except SkillyardError as error:
            outcome = Run(new_run_id(), match.skill.id, "unavailable", error=RunError(error.code, error.message))
        done.append(Preprocessed(match.skill, match.confidence, match.matched, outcome))
    return done


async def run_first_match(
    index: SearchIndex, intent: str, parameters: Mapping[str, object], *, limit: int, min_confidence: float, run: RunSkill
) -> IntentRun:
    """Run the skill that fits `intent` best; the next one is only tried when a better one could not be started.

    Only skills that have something of the intent and reach `min_confidence`, 0.15 or more, are tried.

    Raises:
        InvalidInput: a limit below 1, or a confidence outside 0.15 to 1.
        SkillNotFound: no skill fits.
        NotExecutable: skills fit, and none of them could be started; `details["skipped"]` says why.
    """
    if not _LEAST_CONFIDENCE <= min_confidence <= 1:
        raise InvalidInput(
            f"cannot run by intent with min_confidence {min_confidence}",
            hint=f"give a confidence from {_LEAST_CONFIDENCE} to 1: below that skills run that have nothing to do with it",
        )
    matches = search_skills(index, intent, limit=limit, min_confidence=min_confidence)
    if not matches:
        raise SkillNotFound("no skill matches that intent", hint="rephrase it, or run a skill by its name", candidates=[])
    skipped: dict[str, str] = {}
    for match in matches:
        outcome = await _tried(match, parameters, run)
        if isinstance(outcome, Run):
            return IntentRun(match.skill, match.confidence, match.matched, outcome, skipped)
        skipped[match.skill.id] = outcome
    raise _none_started(matches, skipped)


async def _tried(match: Match, parameters: Mapping[str, object], run: RunSkill) -> Run | str:
    """The run, or why nothing was started."""
    try:
        outcome = await run(match.skill, parameters)
    except (ExecutionProblem, FileProblem, InvalidPolicy) as error:
        return error.message
    nothing_ran = outcome.status == "unavailable" or (outcome.error and outcome.error.code == "VALIDATION_FAILED")
    return outcome.error.message if nothing_ran and outcome.error else outcome


def _none_started(matches: Sequence[Match], skipped: Mapping[str, str]) -> NotExecutable:
    best = matches[0].skill
    fitting = "1 skill fits" if len(skipped) == 1 else f"{len(skipped)} skills fit"
    return NotExecutable(
        f"{fitting} that intent and none could be started; {best.name!r}: {skipped[best.id]}",
        hint="run one by its name with the input it takes, or follow its instructions",
        skipped=dict(skipped),
    )


def _parameters(skill: Skill, request: str) -> dict[str, object]:
    schema = skill.document().metadata.input_schema or {}
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and len(required) == 1 and isinstance(properties, Mapping):
        name = required[0]
        declared = properties.get(name)
        if isinstance(declared, Mapping) and declared.get("type") == "string":
            return {str(name): request}
    return {"request": request}
