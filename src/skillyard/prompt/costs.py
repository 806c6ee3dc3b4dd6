"""What each skill costs in an index: the tokens of its own lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from skillyard.prompt.forms import FORMS
from skillyard.prompt.index import DEFAULT_DESCRIPTION
from skillyard.prompt.shown import ShownSkill, labels
from skillyard.prompt.tokens import count_tokens

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.prompt.report import Index

__all__ = ["entry_costs"]


def entry_costs(
    skills: Iterable[Skill], index: Index, *, description_chars: int | None = DEFAULT_DESCRIPTION
) -> dict[str, int]:
    """The tokens of each skill that `index` shows, by id, in its order; `skills` and the limit are those it was written of."""
    offered = [skill for skill in skills if skill.offered]
    form = FORMS[index.style]
    shown = {skill.id: (skill, label) for skill, label in zip(offered, labels(offered), strict=True)}
    costs = {}
    for line in index.lines:
        skill, label = shown[line.id]
        costs[line.id] = count_tokens(form.entry(ShownSkill(skill, label, description_chars)).render(line.allowance))
    return costs
