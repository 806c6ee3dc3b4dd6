"""The port of everything that fetches a source, and what fetching gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skillyard.packages import Origin, Source


@dataclass(frozen=True, slots=True)
class FetchedTree:
    """What a source held: the folder `tree`, and where it came from.

    An `owned` tree was made for the caller to move; one that is `chosen` has only the skills that were requested of a list.
    """

    tree: Path
    origin: Origin
    owned: bool
    chosen: bool = False


class Fetcher(Protocol):
    """Fetches one source."""

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """Fetch `source`; everything that is written goes below `into`, which the caller removes.

        Raises:
            InvalidSource: such a source cannot be fetched, or is not what it should be.
            ArchiveRefused: what came breaks a rule.
            NetworkFailed, NetworkRefused: the network.
        """
