"""What a soak has shown: for people as text, for programs as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = ["Report"]

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Report:
    """One soak: `lost`, `doubled`, `left` and `strange` are sentences, and should be none."""

    seed: int
    seconds: float
    recovered_s: float
    accepted: int
    installed: int
    states: Mapping[str, int]
    remembered: int
    faults: Mapping[str, int]
    answers: Mapping[str, int]
    starts: Mapping[str, int]
    unanswered: int
    lost: Sequence[str]
    doubled: Sequence[str]
    left: Sequence[str]
    strange: Sequence[str]

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return not (self.lost or self.doubled or self.left or self.strange)

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        return {**asdict(self), "good": self.good}

    def text(self) -> str:
        """For people."""
        lines = [
            f"seed {self.seed}: {sum(self.faults.values())} faults in {self.seconds:.0f} s, all well again after"
            f" {self.recovered_s:.1f} s",
            f"{self.accepted} runs accepted: {_counted(self.states)}; {self.remembered} remembered",
            f"{self.installed} skills installed; {self.unanswered} requests never answered",
            f"{len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.left)} left over,"
            f" {len(self.strange)} strange answers",
            *_listed("faults", self.faults),
            *_listed("answers", self.answers),
        ]
        for name in ("lost", "doubled", "left", "strange"):
            found = getattr(self, name)
            lines += [f"{name}: {sentence}" for sentence in found[:_SHOWN]]
            lines += [f"{name}: and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "\n".join([*lines, f"{'good' if self.good else 'NOT GOOD'}; the same faults again: --seed {self.seed}"])


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items())


def _listed(title: str, numbers: Mapping[str, int]) -> list[str]:
    return [f"{title}:", *(f"  {number:6}  {name}" for name, number in sorted(numbers.items()))]
