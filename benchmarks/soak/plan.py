"""How one soak is meant."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds` of faults, or until `runs` were accepted; `seed` chooses every fault and every request.

    `pace` is how many seconds lie between two faults on average, `settle` how many there are to recover at the end.
    """

    seed: int
    seconds: float = 60
    runs: int = 0
    clients: int = 6
    servers: int = 3
    workers: int = 4
    pace: float = 1.2
    settle: float = 120
