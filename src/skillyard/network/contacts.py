"""Contacts: the record of what a run asked its proxy for, with which verdict, and how many bytes went each way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypedDict

Verdict = Literal["allowed", "denied", "refused", "failed"]
"""`denied`: not on the list, or an address that is closed. `refused`: no proper request. `failed`: no proper answer."""

_MOST: Final = 200


class ContactShape(TypedDict):
    """A contact as plain data."""

    host: str
    port: int
    verdict: Verdict
    reason: str
    address: str
    requests: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Contact:
    """Requests of one run to one host and port that ended in the same way.

    `reason` says in a few words why it was not allowed, or how it was cut. `address` is what was dialled, empty when nothing
    was. Bytes sent and received are the run's.
    """

    host: str
    port: int
    verdict: Verdict
    reason: str = ""
    address: str = ""
    requests: int = 1
    sent_bytes: int = 0
    received_bytes: int = 0

    def to_dict(self) -> ContactShape:
        """The contact as plain data."""
        return {
            "host": self.host,
            "port": self.port,
            "verdict": self.verdict,
            "reason": self.reason,
            "address": self.address,
            "requests": self.requests,
            "sent_bytes": self.sent_bytes,
            "received_bytes": self.received_bytes,
        }


class ContactLog:
    """Adds contacts up; a run that asks for endless names is written down in bounded space."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int, Verdict, str, str], list[int]] = {}

    def add(self, contact: Contact) -> None:
        """Count one more contact; beyond 200 different ones under the host `…`."""
        key = (contact.host[:253], contact.port, contact.verdict, contact.reason, contact.address)
        if key not in self._sums and len(self._sums) >= _MOST:
            key = ("…", 0, contact.verdict, "more hosts than are written down", "")
        sums = self._sums.setdefault(key, [0, 0, 0])
        for place, number in enumerate((contact.requests, contact.sent_bytes, contact.received_bytes)):
            sums[place] += number

    def contacts(self) -> tuple[Contact, ...]:
        """Everything that was written down, in the order of the first time."""
        return tuple(Contact(*key, *sums) for key, sums in self._sums.items())
