"""Who made a schedule, and whether runs may still be begun for them: what was planted with a stolen key ends with that key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.access import ApiKey, Keys
    from skillyard.engine.schedules import Schedule

__all__ = ["Makers"]


@dataclass(frozen=True, slots=True)
class Makers:
    """Those who make schedules in one organisation, known by the `keys` of the server."""

    keys: Keys
    organisation: str

    def held(self, schedules: Iterable[Schedule]) -> tuple[Schedule, ...]:
        """The schedules as they stand now: each whose maker may not start runs any more is `held`, and says why.

        Raises:
            DatabaseUnavailable: the keys cannot be read.
        """
        known = tuple(schedules)
        if all(one.key_id is None for one in known):  # made at this machine
            return known
        keys = {key.id: key for key in self.keys.all(self.organisation)}
        return tuple(
            one if one.held or one.key_id is None else replace(one, held=_problem(one, keys.get(one.key_id))) for one in known
        )


def _problem(schedule: Schedule, key: ApiKey | None) -> str | None:
    """Why runs are not begun with that key any more; None while they are."""
    if key is None:
        return f"the key of {schedule.made_by} is not there any more"
    if key.state != "usable":
        return f"the key of {schedule.made_by} {'was revoked' if key.state == 'revoked' else 'has expired'}"
    if not {"runs:execute", "admin"} & set(key.scopes):
        return f"the key of {schedule.made_by} has not got the scope runs:execute"
    return None
