"""Everything there is to say about one skill, gathered once: what the CLI and the HTTP API show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.catalog import load_withdrawn
from skillyard.catalog.user_changes import load_copies, real_place
from skillyard.errors import FileTooLarge, SkillUnusable, SkillyardError
from skillyard.execution import find_entry
from skillyard.sandbox import can_start
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillFile
    from skillyard.catalog.skill_files import KeptLink
    from skillyard.document import Document
    from skillyard.environments import SkillNeeds
    from skillyard.library import Catalog
    from skillyard.permissions import PermissionRuling
    from skillyard.registry import Powers


@dataclass(frozen=True, slots=True)
class SkillDetail:
    """One skill with all details: its fields, files, skills with the same name, permission, runs and needs."""

    skill: Skill
    document: Document | None
    files: tuple[SkillFile, ...]
    namesakes: tuple[Skill, ...]
    ruling: PermissionRuling
    runs: bool
    entry: str | None
    needs: SkillNeeds
    withdrawn: str | None = None
    """That its current version was deprecated or yanked, why, and the way out."""
    copy_of: str | None = None
    """The installed skill of which this is a copy that was edited in a folder of coding agents; its state is its own."""

    @property
    def input_schema(self) -> Mapping[str, object] | None:
        """The JSON Schema of what it takes, when it says."""
        return self.document.metadata.input_schema if self.document else None

    @property
    def powers(self) -> Powers | None:
        """What it may do; None when its SKILL.md cannot be read."""
        from skillyard.registry import read_powers

        if self.document is None:
            return None
        return read_powers(self.skill.directory, self.document).with_links(self.skill.kept_links())

    @property
    def links(self) -> tuple[KeptLink, ...]:
        """The late links of its text; those that were kept at its installation have a digest."""
        from skillyard.catalog.skill_files import KeptLink
        from skillyard.scanner.late_links import find_late_links

        kept = {one.address: one for one in self.skill.kept_links()}
        found = find_late_links(self.skill.directory) if self.document else ()
        return tuple(kept.get(one.address) or KeptLink(one.kind, one.address, one.file, one.line) for one in found)

    @property
    def run_summary(self) -> str:
        """One sentence on whether and how it can run."""
        if self.skill.status != "ok":
            return f"no: it is {self.skill.status}"
        if self.runs and self.entry:
            return f"yes, in the sandbox: {self.entry}"
        if script := next(filter(_may_be_entry, (file.name for file in self.files)), None):
            return f"yes, in the sandbox, when a script is named: `skillyard run {self.skill.name} --entry {script}`"
        if self.runs:
            return "yes: its answer is in its front matter"
        return "no: it holds instructions, nothing to run"

    def to_dict(self) -> dict[str, object]:
        """The skill as `show --json` gives it: the shape of `list` and more."""
        skill = self.skill
        return {
            **skill.to_dict(),
            "path": skill.main_file,
            "root": skill.root.to_dict(),
            "display_name": skill.display_name,
            "version": skill.version,
            "kind": skill.kind,
            "allowed_tools": list(skill.allowed_tools),
            "front_matter": self.document.public_front_matter if self.document else {},
            "files": [{"name": file.name, "type": file.type, "size": file.size} for file in self.files],
            "inventory": skill.inventory().to_dict(),
            "digest": skill.digest(),
            "withdrawn": self.withdrawn,
            "copy_of": self.copy_of,
            "namesakes": [{"id": other.id, "status": other.status, "directory": other.location} for other in self.namesakes],
            "permission": {"decision": self.ruling.permission, "pattern": self.ruling.pattern},
            "environment": self.needs.to_dict(),
            "links": [link.to_dict() for link in self.links],
            "run": {"possible": self.runs, "entry": self.entry, "story": self.run_summary},
        }


def read_skill_detail(catalog: Catalog, skill: Skill) -> SkillDetail:
    """Look at the skill's folder now; a SKILL.md that cannot be read leaves its fields out."""
    try:
        document = skill.document()
    except (SkillUnusable, FileTooLarge):
        document = None
    return SkillDetail(
        skill=skill,
        document=document,
        files=skill.files(),
        namesakes=tuple(other for other in catalog.all() if other.slug == skill.slug and other.id != skill.id),
        ruling=catalog.rules().rule(skill),
        runs=skill.status == "ok" and catalog.executor().can_run(skill),
        entry=_entry(skill, document),
        needs=catalog.grants().needs(skill),
        withdrawn=load_withdrawn(catalog.data_directory).get(skill.slug) if skill.source == "installed" else None,
        copy_of=_copy_of(catalog, skill),
    )


def _copy_of(catalog: Catalog, skill: Skill) -> str | None:
    """One that is as it was made is listed as the installed skill itself."""
    copy = load_copies(catalog.data_directory).get(real_place(skill.directory))
    return None if copy is None else f"installed:{copy.skill_id}"


def model_text(catalog: Catalog, skill: Skill) -> str:
    """What a model reads when it loads the skill with the tool `skill`, outside of a workspace.

    Raises:
        SkillUnusable: its SKILL.md cannot be read.
    """
    from skillyard.permissions import AllowedTools
    from skillyard.tools.reading_tools import has_scripts, render_skill, run_advice

    document, files = skill.document(), tuple(file.name for file in skill.files())
    running = run_advice() if has_scripts(files) and catalog.executor().can_run(skill) else ""
    tools = AllowedTools(skill.allowed_tools, mode=catalog.configuration.allowed_tools)
    return render_skill(skill, document.body, files, tools=tools, running=running)


_FILES: Final = 100
_NAME: Final = 200  # characters of a file's name
_SENTENCE: Final = 500
_SENTENCES: Final = 50


def approval_summary(skill: Skill) -> dict[str, object]:
    """What a person should see before they approve a skill: its `files`, what it `may` do, and its `source`."""
    from skillyard.registry import read_powers

    try:
        files = [{"name": shorten(single_line(file.name), _NAME), "size": file.size} for file in skill.files()[:_FILES]]
        powers = read_powers(skill.directory, skill.document()).sentences()
        may = [shorten(single_line(sentence), _SENTENCE) for sentence in powers[:_SENTENCES]]
        return {"files": files, "may": may, "source": skill.source}
    except (SkillyardError, OSError):
        return {"files": [], "may": [], "source": skill.source}


def _entry(skill: Skill, document: Document | None) -> str | None:
    """The script that would run: the declared one, a conventional one, or the only one."""
    try:
        return find_entry(skill, document) if document else None
    except (SkillyardError, OSError):
        return None


def _may_be_entry(file: str) -> bool:
    return file.startswith("scripts/") and not file.endswith("/__init__.py") and can_start(file)
