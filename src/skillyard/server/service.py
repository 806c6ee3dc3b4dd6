"""What the routes share: the catalog, the registry, and how a request gets at them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from skillyard.library import Catalog
from skillyard.registry import Registry

__all__ = ["Served", "Service"]


@dataclass(frozen=True, slots=True)
class Service:
    """The rooms below, as one application uses them; `changing` is held while the catalog is changed."""

    catalog: Catalog
    registry: Registry
    changing: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> dict[str, list[str]]:
        """Look at the folders again; give the ids that are `added`, `changed` and `removed`."""
        with self.changing:
            changes = self.catalog.refresh()
        return {"added": list(changes.added), "changed": list(changes.changed), "removed": list(changes.removed)}


def _service(request: Request) -> Service:
    found = request.app.state.service
    assert isinstance(found, Service)  # noqa: S101 # the application puts it there
    return found


Served = Annotated[Service, Depends(_service)]
