"""A server that was asked to stop: it says so to who asks whether it is ready, and ends what would never end by itself."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Stopping"]


class Stopping:
    """Whether the server stops, and what is to be done when that begins."""

    def __init__(self) -> None:
        self.begun = False
        self._then: list[Callable[[], object]] = []

    def then(self, do: Callable[[], object]) -> None:
        """Have something done when the server begins to stop."""
        self._then.append(do)

    def begin(self) -> None:
        """From now on the server takes leave; the second time nothing happens."""
        if not self.begun:
            self.begun = True
            for do in self._then:
                do()
