"""The library: the catalog as a program uses it, with the components that work for it in one object."""

from __future__ import annotations

from skillyard.library.library_catalog import Catalog

__all__ = ["Catalog"]
