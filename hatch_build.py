"""The build hook: the page is built before the package is packed, so that every wheel carries it."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = "SKILLYARD_WITHOUT_PAGE"  # set to anything: what is built has no page


class PageHook(BuildHookInterface[Any]):
    """Builds the page when its sources changed; asks for a node of its own only where PATH has none that fits."""

    def dependencies(self) -> list[str]:
        """What this build must have installed beside it."""
        page = self._page()
        return [] if _left_out() or page.fresh(Path(self.root)) or page.path_node(Path(self.root)) else [page.WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build; an editable install goes on without a page where that fails: its server says how to build one."""
        page, root = self._page(), Path(self.root)
        if _left_out() or page.fresh(root):
            return
        self.app.display_waiting("building the page")
        try:
            page.build(root)
        except page.BuildFailed as error:
            if version != "editable":
                raise SystemExit(f"error: {error}\nhint: {error.hint}; {WITHOUT}=1 leaves the page out") from None
            self.app.display_warning(f"the page was not built: {error}\nhint: {error.hint}")

    def _page(self) -> ModuleType:
        loader = SourceFileLoader("build_page", str(Path(self.root, "web/build.py")))
        module = ModuleType(loader.name)
        module.__file__ = loader.path
        sys.modules[loader.name] = module  # its dataclasses look for it there
        loader.exec_module(module)
        return module


def _left_out() -> bool:
    return bool(os.environ.get(WITHOUT))
