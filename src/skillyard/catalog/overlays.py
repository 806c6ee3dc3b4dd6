"""What is laid over the result of a survey: other statuses, another order; a refresh lays it over again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from skillyard.catalog.model import Row, Skill, Verdict
from skillyard.catalog.surveying import State

__all__ = ["Order", "Overlay", "overlaid"]

Overlay = Mapping[str, Verdict] | Callable[[Skill], Verdict | None]
"""Statuses laid over those of the scan: by id, or decided for each skill (None leaves it as it is)."""


class Order(NamedTuple):
    """An order laid over that of the scan: the place of each skill; those of one place keep their order."""

    place: Callable[[Skill], int]


def overlaid(state: State, overlays: tuple[Overlay | Order, ...]) -> State:
    """A state with every overlay applied, the first one first."""
    for overlay in overlays:
        rows = _in_order(state, overlay) if isinstance(overlay, Order) else _decided(state, overlay)
        state = State(state.configuration, state.profile, state.scans, rows)
    return state


def _in_order(state: State, order: Order) -> list[Row]:
    places = [order.place(skill) for skill in state.all()]
    return [state.rows[at] for at in sorted(range(len(places)), key=places.__getitem__)]


def _decided(state: State, overlay: Overlay) -> list[Row]:
    decide = _by_id(overlay) if isinstance(overlay, Mapping) else overlay
    rows: list[Row] = []
    for row, skill in zip(state.rows, state.all(), strict=True):
        verdict = decide(skill)
        rows.append(row if verdict is None else (row[0], *verdict, *row[3:]))
    return rows


def _by_id(statuses: Mapping[str, Verdict]) -> Callable[[Skill], Verdict | None]:
    return lambda skill: statuses.get(skill.id)
