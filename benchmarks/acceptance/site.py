"""A fresh home with the skills installed and granted what their proposals ask for, and a workspace to follow one in."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import tomlkit

from benchmarks.acceptance.model import ScriptedModel, StepFailed
from benchmarks.acceptance.talk import ScriptedTalk
from skillyard import Catalog
from skillyard.catalog.configuration import configuration_directory
from skillyard.conversations import Chat, ChatSettings, TurnLimits

_MODEL = "scripted"
_LIMITS = TurnLimits(requests=1000, calls_in_all=1000, repeats=100, result=1_000_000, silence_s=1800)
_INSTALL_SECONDS = 1200


class Site:
    """Everything of one acceptance below `folder`: the home of Skillyard, and a folder for what each skill makes.

    `environ` are the variables of the command line and of this process's catalog: the home is in them.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._environ = dict(environ)
        file = Path(configuration_directory(self._environ), "skillyard.toml")
        self._configuration = file.read_text("utf-8") if file.is_file() else ""

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
    async def follow(self, name: str, settings: Mapping[str, object], registries: bool) -> AsyncIterator[ScriptedModel]:
        """A conversation in which the skill is followed, and who follows it.

        Every call is one of the conversation's model, and works in the workspace of the conversation, which is granted what
        the loaded skill was granted. This is the only place that says what calls go through.
        """
        catalog = await asyncio.to_thread(self._with_settings, name, settings, registries)
        skill = catalog.get(name)
        folder = self.folder / "work" / name
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        talk = ScriptedTalk()
        chat = Chat(catalog, models={_MODEL: talk.model}, limits=_LIMITS)
        try:
            conversation = await chat.begin(
                "acceptance", model=_MODEL, settings=ChatSettings(skills=(skill.id,)), folder=folder
            )
            await talk.begin(chat, conversation, f"Follow the skill {skill.name}.")
            yield ScriptedModel(talk.call, folder, skill.name)
            await talk.end()
        except StepFailed as error:
            raise StepFailed("; ".join([str(error), *talk.notices])) from error
        finally:
            talk.cancel()
            await chat.close()

    def _with_settings(self, name: str, settings: Mapping[str, object], registries: bool) -> Catalog:
        """The catalog as it is with these settings of workspaces and this grant; an operator's own words count."""
        file = Path(configuration_directory(self._environ), "skillyard.toml")
        written = tomlkit.parse(self._configuration) if self._configuration else tomlkit.document()
        written["workspace"] = {**settings, **written.get("workspace", {})}
        if registries:
            skills = written.setdefault("skills", tomlkit.table())
            skills[name] = {"registries": True, **skills.get(name, {})}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(tomlkit.dumps(written), "utf-8")
        return Catalog.discover(environ=self._environ, cwd=str(self.folder))
