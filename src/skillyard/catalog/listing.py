"""The catalog as the JSON of `list --json`, put together from pieces that were written when each file was read."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog.model import Root, Row

__all__ = ["listing_json"]


def listing_json(rows: Sequence[Row], roots: Sequence[Root]) -> str:
    """`{"skills": [...], "roots": [...]}` in ASCII, one skill a line; ten thousand take about ten milliseconds."""
    starts = [quote(f"{root.location.rstrip('/')}/")[:-1] for root in roots]
    ends = [f', "source": "{root.source}", "directory": ' for root in roots]
    alone = [quote(root.location) for root in roots]
    skills = [
        f'{{"id": "{skill_id}", {facts[3]}{ends[index]}'
        f'{starts[index] + quote(found[0])[1:] if found[0] else alone[index]}, "status": "{status}", '
        f'"reason": {"null" if reason is None else quote(reason)}, "diagnostics": {facts[4]}}}'
        for skill_id, status, reason, index, found, facts in rows
    ]
    end = f'], "roots": [{", ".join([_root(root) for root in roots])}]}}'
    if not skills:
        return '{"skills": [' + end
    # One join: every further step would copy some megabytes.
    skills[0] = '{"skills": [\n' + skills[0]
    skills[-1] = f"{skills[-1]}\n{end}"
    return ",\n".join(skills)


def _root(root: Root) -> str:
    return "{" + ", ".join(f"{quote(key)}: {quote(value)}" for key, value in root.to_dict().items()) + "}"
