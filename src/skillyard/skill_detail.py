"""Everything there is to say about one skill, gathered once: what the CLI and the HTTP API show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.catalog import Inventory, Skill, SkillFile, Status, load_withdrawn
from skillyard.catalog.skill_files import KeptLink
from skillyard.catalog.user_changes import load_copies, real_place
from skillyard.document import Document
from skillyard.environments import SkillNeeds
from skillyard.errors import FileTooLarge, SkillUnusable, SkillyardError
from skillyard.execution import find_entry
from skillyard.permissions import PermissionRuling
from skillyard.sandbox import can_start
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.library import Catalog
    from skillyard.registry import Powers


@dataclass(frozen=True, slots=True)
class SkillRoot(WireForm):
    """The folder that a skill was found below, and the environment variable that names it."""

    path: str
    source: str
    status: str
    variable: str | None = field(default=None, metadata=wire(omit_empty=True))
    reason: str | None = field(default=None, metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class Namesake(WireForm):
    """Another skill of the same name."""

    id: str
    status: Status
    directory: str


@dataclass(frozen=True, slots=True)
class Runnability(WireForm):
    """Whether a skill can run, by which script, and one sentence about it."""

    possible: bool
    entry: str | None
    summary: str = field(metadata=wire(name="story"))


@dataclass(frozen=True, slots=True)
class SkillDetail(
    WireForm,
    also=(
        "path", "root", "display_name", "version", "kind", "allowed_tools", "front_matter", "inventory", "digest", "namesakes",
        "links", "run",
    ),
):  # fmt: skip
    """One skill with all details: its fields, files, skills with the same name, permission, runs and needs."""

    skill: Skill = field(metadata=wire(inline=True))
    document: Document | None = field(metadata=wire(hidden=True))
    files: tuple[SkillFile, ...]
    others: tuple[Skill, ...] = field(metadata=wire(hidden=True))
    """Those with the same name."""
    ruling: PermissionRuling = field(metadata=wire(name="permission"))
    runs: bool = field(metadata=wire(hidden=True))
    entry: str | None = field(metadata=wire(hidden=True))
    needs: SkillNeeds = field(metadata=wire(name="environment"))
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
        from skillyard.scanner.late_links import find_late_links

        kept = {one.address: one for one in self.skill.kept_links()}
        found = find_late_links(self.skill.directory) if self.document else ()
        return tuple(kept.get(one.address) or KeptLink(one.kind, one.address, one.file, one.line) for one in found)

    @property
    def run(self) -> Runnability:
        """Whether and how it can run."""
        return Runnability(self.runs, self.entry, self._run_summary())

    def _run_summary(self) -> str:
        if self.skill.status != "ok":
            return f"no: it is {self.skill.status}"
        if self.runs and self.entry:
            return f"yes, in the sandbox: {self.entry}"
        if script := next(filter(_may_be_entry, (file.name for file in self.files)), None):
            return f"yes, in the sandbox, when a script is named: `skillyard run {self.skill.name} --entry {script}`"
        if self.runs:
            return "yes: its answer is in its front matter"
        return "no: it holds instructions, nothing to run"

    @property
    def path(self) -> str:
        """Its SKILL.md, as everybody may see it."""
        return self.skill.main_file

    @property
    def root(self) -> SkillRoot:
        """The folder that it was found below."""
        root = self.skill.root
        return SkillRoot(root.location, root.source, root.status, root.variable, root.reason)

    @property
    def display_name(self) -> str | None:
        """Its name for people."""
        return self.skill.display_name

    @property
    def version(self) -> str | None:
        """Its version as written."""
        return self.skill.version

    @property
    def kind(self) -> str:
        """How it runs."""
        return self.skill.kind

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools that it requests."""
        return self.skill.allowed_tools

    @property
    def front_matter(self) -> Mapping[str, object]:
        """The fields of its SKILL.md; none when that cannot be read."""
        return self.document.public_front_matter if self.document else {}

    @property
    def inventory(self) -> Inventory:
        """Its files, counted and sorted."""
        return self.skill.inventory()

    @property
    def digest(self) -> str:
        """The digest of its folder."""
        return self.skill.digest()

    @property
    def namesakes(self) -> tuple[Namesake, ...]:
        """The other skills of its name."""
        return tuple(Namesake(other.id, other.status, other.location) for other in self.others)


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
        others=tuple(other for other in catalog.all() if other.slug == skill.slug and other.id != skill.id),
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
