"""The word to who counts what was done to installed skills in this process: the action and how it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["hear_operations", "tell"]

_Told = Callable[[str, str], object]
_hearing: Final[dict[object, _Told]] = {}


def hear_operations(told: _Told) -> Callable[[], None]:
    """Let `told` hear the action (`install`, `yank`, …) and its outcome (`success`, `failed`); gives what ends that."""
    mine = object()
    _hearing[mine] = told

    def stop() -> None:
        _hearing.pop(mine, None)

    return stop


def tell(action: str, outcome: str) -> None:
    """Say it to everybody who wants to hear."""
    for told in tuple(_hearing.values()):
        told(action, outcome)
