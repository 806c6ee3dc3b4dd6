"""A fresh home with the skills installed and granted what their proposals ask for, and a workspace to follow one in."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.acceptance.model import ScriptedModel
from skillyard import Catalog
from skillyard.environments import EnvironmentRequest, index_settings
from skillyard.tools import SkillTools
from skillyard.workspace import Workspace, options_from_settings

_INSTALL_SECONDS = 1200


class Site:
    """Everything of one acceptance below `folder`: the home of Skillyard, and a folder for what each skill makes.

    `environ` are the variables of the command line and of this process's catalog: the home is in them.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._environ = dict(environ)
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The installed skills."""
        if self._catalog is None:
            self._catalog = Catalog.discover(environ=self._environ, cwd=str(self.folder))
        return self._catalog

    def install(self, skills: Path) -> None:
        """Install every skill of a folder."""
        self._command("install", str(skills), "--yes")

    def allow(self, name: str, more: Sequence[str]) -> None:
        """Grant a skill its proposal, and the packages that its text leaves to whoever follows it."""
        self._command("environment", "allow", name, "--yes")
        if more:
            self._command("environment", "allow", name, "--yes", *(word for one in more for word in ("--with", one)))

    def _command(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "skillyard", *words], env=self._environ, cwd=self.folder, capture_output=True, text=True,
            timeout=_INSTALL_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"skillyard {' '.join(words[:3])}: {done.stderr.strip()[-500:]}")

    @contextlib.asynccontextmanager
    async def follow(self, name: str, settings: Mapping[str, object]) -> AsyncIterator[ScriptedModel]:
        """A workspace in which the skill is followed, and who follows it.

        The calls go through the tools as a model's do. This is the only place that says what they go through.
        """
        skill = self.catalog.get(name)
        table = {**settings, **self.catalog.configuration.workspace}  # an operator's own words count
        request = EnvironmentRequest(
            grant=self.catalog.grants().granted(skill), settings=index_settings(self.catalog.configuration.sandbox)
        )
        environment = await asyncio.to_thread(request, skill.directory)
        options = replace(options_from_settings(table), environment=environment, skills=(skill.directory,))
        folder = self.folder / "work" / name
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        workspace = Workspace(folder, options=options)
        tools = SkillTools(self.catalog, workspace=workspace, record=False)
        try:
            yield ScriptedModel(tools.call, folder, skill.name)
        finally:
            await workspace.close()
