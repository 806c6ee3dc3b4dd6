"""`python -m benchmarks.acceptance SKILLS`: each public skill is installed, granted its proposal and followed.

SKILLS is a folder with the collection. It ends with 1 when a skill does not do its work. The seconds are those of
following, without the time in which packages are downloaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

from benchmarks.acceptance import art_skills, office_skills, web_skills, writing_skills
from benchmarks.acceptance.model import ScriptedModel
from benchmarks.acceptance.site import Site

_NONE: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True)
class Workflow:
    """How one skill is followed: `more` are packages that its text leaves open, `settings` of the workspace.

    With `registries` its commands install packages themselves.
    """

    follow: Callable[[ScriptedModel], Awaitable[str]]
    more: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=lambda: _NONE)
    registries: bool = False


WORKFLOWS: Mapping[str, Workflow] = {
    "algorithmic-art": Workflow(art_skills.algorithmic_art, ("npm:p5@1.7.0",)),
    "brand-guidelines": Workflow(art_skills.brand_guidelines, ("python-pptx",)),
    "canvas-design": Workflow(art_skills.canvas_design, ("pillow", "reportlab")),
    "claude-api": Workflow(web_skills.claude_api),
    "doc-coauthoring": Workflow(writing_skills.doc_coauthoring),
    "docx": Workflow(office_skills.docx),
    "frontend-design": Workflow(web_skills.frontend_design),
    "internal-comms": Workflow(writing_skills.internal_comms),
    "mcp-builder": Workflow(web_skills.mcp_builder, ("mcp>=1.1.0,<2",)),  # its scripts are for version 1
    "pdf": Workflow(office_skills.pdf),
    "pptx": Workflow(office_skills.pptx),
    "skill-creator": Workflow(writing_skills.skill_creator),
    "slack-gif-creator": Workflow(art_skills.slack_gif_creator),
    "template-skill": Workflow(writing_skills.template_skill),
    "theme-factory": Workflow(art_skills.theme_factory),
    "web-artifacts-builder": Workflow(
        web_skills.web_artifacts_builder, settings={"tmp-mb": 1024, "pids": 1024}, registries=True
    ),
    "webapp-testing": Workflow(web_skills.webapp_testing),
    "xlsx": Workflow(office_skills.xlsx),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one skill; `verified` says what, `problem` why not."""

    skill: str
    steps: int
    seconds: float
    verified: str = ""
    problem: str = ""

    @property
    def line(self) -> str:
        """A row of the table."""
        state = "pass" if not self.problem else "FAIL"
        return f"{self.skill:<22} {self.steps:>3} {self.seconds:>7.1f}  {state}  {self.problem or self.verified}"


async def follow(site: Site, name: str, workflow: Workflow) -> Outcome:
    """Grant, follow, judge."""
    steps, verified, problem = 0, "", ""
    started = time.perf_counter()
    try:
        await asyncio.to_thread(site.allow, name, workflow.more)
        started = time.perf_counter()
        async with site.follow(name, workflow.settings, workflow.registries) as model:
            try:
                verified = await workflow.follow(model)
            finally:
                steps = model.steps
    except Exception as error:  # one skill does not keep the others from being tried
        problem = f"{type(error).__name__}: {error}"
    return Outcome(name, steps, round(time.perf_counter() - started, 1), verified, problem)


async def accept(site: Site, names: list[str]) -> list[Outcome]:
    """Follow each skill that is named, one after the other."""
    outcomes = []
    for name in names:
        outcomes.append(await follow(site, name, WORKFLOWS[name]))
        print(outcomes[-1].line, flush=True)
    return outcomes


def main() -> int:
    """Accept, and say what works."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("skills", type=Path, help="a folder with the collection")
    parser.add_argument(
        "--only", action="append", choices=sorted(WORKFLOWS), help="only this skill; may be given several times"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a skillyard.toml for the fresh home: registries, hosts")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the outcomes there, as JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="do it in this folder and leave it with all products")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="skillyard-acceptance-", dir="/tmp"))
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)  # the user of a session passes through
    environ = {
        **os.environ,
        "HOME": str(folder),
        "SKILLYARD_HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    if options.config:
        (folder / "config" / "skillyard").mkdir(parents=True, exist_ok=True)
        shutil.copy(options.config, folder / "config" / "skillyard" / "skillyard.toml")
    shutil.rmtree(folder / "work", ignore_errors=True)
    try:
        site = Site(folder, environ)
        site.install(options.skills)
        outcomes = asyncio.run(accept(site, options.only or list(WORKFLOWS)))
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.report:
        options.report.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", "utf-8")
    passed = sum(not one.problem for one in outcomes)
    print(f"{passed} of {len(outcomes)} skills do their work")
    return 0 if passed == len(outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
