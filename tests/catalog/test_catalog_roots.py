"""Where skills are looked for, in which order, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, SkillTools
from skillyard.catalog import Root, SkillCatalog
from skillyard.catalog.roots import newest
from skillyard.permissions import ApprovalAnswer, ApprovalRequest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a git root."""
    folder = tmp_path / "work" / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def ids(catalog: SkillCatalog) -> list[str]:
    return [skill.id for skill in catalog]


def root_of(catalog: SkillCatalog, path: Path) -> Root:
    return next(root for root in catalog.roots if root.path == str(path))


@pytest.mark.row("001-3", "001-9")
def test_user_skills_are_found_in_both_well_known_folders(home: Path, make_skill: Any, tmp_path: Path) -> None:
    make_skill(home / ".claude/skills", "pdf")
    make_skill(home / ".agents/skills", "xlsx")
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert ids(catalog) == ["user:xlsx", "user:pdf"]
    pdf = catalog.get("user:pdf")
    assert (pdf.name, pdf.source, pdf.status, pdf.reason) == ("pdf", "user", "ok", None)
    assert pdf.path == str(home / ".claude/skills/pdf/SKILL.md")
    assert pdf.directory == str(home / ".claude/skills/pdf")


@pytest.mark.row("001-3")
def test_a_linked_skill_folder_is_followed_and_a_broken_link_is_skipped(home: Path, make_skill: Any, tmp_path: Path) -> None:
    make_skill(tmp_path / "elsewhere", "linked")
    root = home / ".claude/skills"
    root.mkdir(parents=True)
    (root / "linked").symlink_to(tmp_path / "elsewhere/linked")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    (root / "file").symlink_to(tmp_path / "elsewhere/linked/SKILL.md")
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert [skill.id for skill in catalog.all()] == ["user:linked"]


@pytest.mark.row("001-4", "C-11", "C-32")
def test_project_skills_are_found_walking_up_to_the_git_root_and_the_closest_wins(
    project: Path, make_skill: Any, home: Path
) -> None:
    deep = project / "packages" / "web"
    make_skill(deep / ".claude/skills", "deploy", description="The close one.")
    make_skill(project / ".agents/skills", "deploy", description="The far one.")
    make_skill(project / ".claude/skills", "release")
    make_skill(project.parent / ".claude/skills", "beyond-the-git-root")
    catalog = SkillCatalog.discover(cwd=deep)
    assert ids(catalog) == ["project:deploy", "project:release"]
    assert catalog.get("deploy").description == "The close one."
    assert catalog.project_root == str(project)


@pytest.mark.row("001-4")
def test_without_a_git_root_the_walk_ends_at_the_home_folder_whose_skills_are_the_users(home: Path, make_skill: Any) -> None:
    make_skill(home / ".claude/skills", "mine")
    make_skill(home / "notes/.claude/skills", "note")
    (home / "notes/2026").mkdir()
    catalog = SkillCatalog.discover(cwd=home / "notes/2026")
    assert ids(catalog) == ["project:note", "user:mine"]
    assert [root.source for root in catalog.roots if root.path == str(home / ".claude/skills")] == ["user"]


@pytest.mark.row("001-5", "C-11", "C-33")
def test_the_environment_names_a_root_that_comes_after_the_users(
    home: Path, make_skill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(home / ".claude/skills", "pdf")
    make_skill(tmp_path / "env", "pdf")
    make_skill(tmp_path / "env", "docx")
    monkeypatch.setenv("CLAUDE_SKILLS_DIR", str(tmp_path / "env"))
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert ids(catalog) == ["user:pdf", "user:docx"]
    assert catalog.get("user:pdf#2").status == "shadowed"


@pytest.mark.row("001-5")
def test_a_root_that_is_a_file_or_absent_is_listed_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("CLAUDE_SKILLS_DIR", str(tmp_path / "file"))
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert root_of(catalog, tmp_path / "file").status == "missing"
    assert {root.status for root in catalog.roots} == {"missing"}


@pytest.mark.row("001-6", "D-26")
def test_only_the_newest_version_of_a_plugin_is_used_by_semantic_order(home: Path, make_skill: Any, tmp_path: Path) -> None:
    plugin = home / ".claude/plugins/cache/official/tools"
    for version in ("1.9.0", "1.10.0", "1.10.0-beta.2", "0.99.0"):
        make_skill(plugin / version / "skills", "hammer", description=f"Version {version}.")
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert [skill.id for skill in catalog.all()] == ["plugin:hammer"]
    assert catalog.get("hammer").description == "Version 1.10.0."


@pytest.mark.row("D-26")
@pytest.mark.parametrize(
    ("names", "best"),
    [
        (["1.2.0", "1.10.0", "1.9.9"], "1.10.0"),
        (["2.0.0-rc.1", "2.0.0", "2.0.0-rc.10"], "2.0.0"),
        (["1.0.0-rc.2", "1.0.0-rc.10"], "1.0.0-rc.10"),
        (["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-1"], "1.0.0-alpha.1"),
        (["v3", "2.9.9"], "v3"),
        (["unknown", "0.0.1"], "0.0.1"),
        (["build9", "build10"], "build10"),
    ],
)
def test_versions_are_ordered_as_people_mean_them(names: list[str], best: str) -> None:
    assert newest(names) == newest(names[::-1]) == best


@pytest.mark.row("001-28")
async def test_a_program_adds_a_source_a_field_and_a_check_before_each_use(make_skill: Any, tmp_path: Path, home: Path) -> None:
    header = "name: deploy\ndescription: Deploys. Use in a test.\nmetadata: {team: payments}"
    make_skill(tmp_path / "company", "deploy", front_matter=header)
    catalog = Catalog.discover(roots=[tmp_path / "company"], cwd=tmp_path, cache=False)
    skill = catalog.get("deploy")
    assert skill.document().metadata.metadata["team"] == "payments"
    asked: list[str] = []

    class OnlyPayments:
        """A check of the program's own, which the gate asks before each use."""

        async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
            team = str(catalog.get(request.skill_id).document().metadata.metadata["team"])
            asked.append(team)
            return ApprovalAnswer("reject", "not on Fridays")

    tools = SkillTools(catalog, permissions={"*": "ask"}, approver=OnlyPayments())
    result = await tools.call("skill", {"skill": "deploy"})
    assert (result.ok, result.code, asked) == (False, "approval_rejected", ["payments"])


def test_installed_skills_are_found_behind_their_current_version(home: Path, make_skill: Any, tmp_path: Path) -> None:
    store = home / "skillyard/skills"
    make_skill(store / "pdf", "20260101-000000", front_matter="name: pdf\ndescription: Old.")
    make_skill(store / "pdf", "20260201-000000", front_matter="name: pdf\ndescription: New.")
    (store / "pdf/current").symlink_to("20260201-000000")
    catalog = SkillCatalog.discover(cwd=tmp_path)
    assert [(skill.id, skill.description) for skill in catalog.all()] == [("installed:pdf", "New.")]


@pytest.mark.row("C-11", "001-8", "D-30")
def test_every_source_has_its_place_in_the_order(
    project: Path, home: Path, make_skill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    places = {
        "project": project / ".claude/skills",
        "config": project / "more/skills",
        "user": home / ".agents/skills",
        "env": tmp_path / "env",
        "config#2": outside,
        "plugin": home / ".claude/plugins/cache/official/p/1.0.0/skills",
    }
    for place in places.values():
        make_skill(place, "same")
    monkeypatch.setenv("CLAUDE_SKILLS_DIR", str(places["env"]))
    (project / "skillyard.toml").write_text(f'[skills]\npaths = ["{outside}", "more"]\nallow-external-paths = true\n')
    catalog = SkillCatalog.discover(cwd=project)
    assert [(skill.id, skill.status) for skill in catalog.all()] == [
        ("project:same", "ok"),
        ("config:same", "shadowed"),
        ("user:same", "shadowed"),
        ("user:same#2", "shadowed"),
        ("config:same#2", "shadowed"),
        ("plugin:same", "shadowed"),
    ]
    assert catalog.get("user:same").reason == f"project:same in {places['project']}/same has the same name and comes first"
    assert [root.precedence for root in catalog.roots] == list(range(len(catalog.roots)))


@pytest.mark.row("004-6")
@pytest.mark.parametrize("file", ["skillyard.toml", "pyproject.toml", "ship.json"])
def test_configured_roots_are_relative_to_the_project_and_home_is_expanded(
    file: str, project: Path, home: Path, make_skill: Any
) -> None:
    make_skill(project / ".my/skills", "here")
    make_skill(home / "mine", "there")
    text = {
        "skillyard.toml": '[skills]\npaths = [".my/skills", "~/mine"]\nallow-external-paths = true\n',
        "pyproject.toml": '[tool.skillyard.skills]\npaths = [".my/skills", "~/mine"]\nallow-external-paths = true\n',
        "ship.json": json.dumps({"skills": {"paths": [" .my/skills ", "~/mine", ""], "allowExternalPaths": True}}),
    }
    (project / file).write_text(text[file])
    (project / "src").mkdir()
    catalog = SkillCatalog.discover(cwd=project / "src")
    assert ids(catalog) == ["config:here", "config:there"]


@pytest.mark.row("004-7")
def test_a_skills_folder_below_a_configured_root_is_used_instead(project: Path, make_skill: Any) -> None:
    make_skill(project / ".claude/skills", "one")
    make_skill(project / "lib/skills", "two")
    make_skill(project / "lib/other", "not-a-skill-root")
    (project / "ship.json").write_text(json.dumps({"skills": {"paths": [".claude", "lib", ".claude/skills"]}}))
    catalog = SkillCatalog.discover(cwd=project)
    assert [skill.id for skill in catalog.all()] == ["project:one", "config:two"]
    assert [root.path for root in catalog.roots if root.status == "ok"] == [
        str(project / ".claude/skills"),
        str(project / "lib/skills"),
    ]


@pytest.mark.row("004-8", "D-27")
def test_a_root_outside_the_project_is_refused_and_says_so(project: Path, tmp_path: Path, make_skill: Any) -> None:
    outside = tmp_path / "outside"
    make_skill(outside, "stranger")
    (project / "link").symlink_to(outside)
    (project / "ship.json").write_text(json.dumps({"skills": {"paths": [str(outside), "link", "../../outside"]}}))
    catalog = SkillCatalog.discover(cwd=project)
    assert list(catalog.all()) == []
    for path in (outside, project / "link"):
        root = root_of(catalog, path)
        assert root.status == "refused"
        assert "outside the project" in root.to_dict()["reason"]


@pytest.mark.row("004-8", "D-27")
def test_a_project_folder_whose_name_begins_with_two_dots_is_inside(project: Path, make_skill: Any) -> None:
    make_skill(project / "..x", "odd")
    (project / "ship.json").write_text(json.dumps({"skills": {"paths": ["..x"]}}))
    assert ids(SkillCatalog.discover(cwd=project)) == ["config:odd"]


@pytest.mark.row("004-8", "D-27")
@pytest.mark.parametrize("root", [".claude/skills", "more"])
def test_a_link_inside_a_project_root_may_not_lead_out_of_the_project(
    root: str, project: Path, tmp_path: Path, make_skill: Any
) -> None:
    make_skill(tmp_path / "outside", "stranger")
    make_skill(project / "vendor", "friend")
    (project / root).mkdir(parents=True)
    (project / root / "stranger").symlink_to(tmp_path / "outside/stranger")
    (project / root / "friend").symlink_to(project / "vendor/friend")
    (project / root / "folder").symlink_to(tmp_path / "outside")
    (project / "skillyard.toml").write_text('[skills]\npaths = ["more"]\n')
    catalog = SkillCatalog.discover(cwd=project)
    assert [(skill.slug, skill.status) for skill in catalog.all()] == [("friend", "ok"), ("stranger", "broken")]
    assert "leads out of the project" in (catalog.get("stranger").reason or "")
    (project / "skillyard.toml").write_text('[skills]\npaths = ["more"]\nallow-external-paths = true\n')
    assert {skill.status for skill in SkillCatalog.discover(cwd=project).all()} <= {"ok", "shadowed"}


def test_a_project_may_link_to_the_users_own_skills(project: Path, home: Path, make_skill: Any) -> None:
    make_skill(home / ".agents/skills", "mine")
    (project / ".claude/skills").mkdir(parents=True)
    (project / ".claude/skills/mine").symlink_to(home / ".agents/skills/mine")
    catalog = SkillCatalog.discover(cwd=project)
    assert ids(catalog) == ["project:mine"]
    assert [skill.id for skill in catalog.all()] == ["project:mine"], "once, where it comes first"


def test_a_skill_that_other_tools_link_into_several_folders_is_listed_once(home: Path, make_skill: Any) -> None:
    folder = make_skill(home / ".agents/skills", "two")
    (home / ".claude/skills").mkdir(parents=True)
    (home / ".claude/skills/two").symlink_to("../../.agents/skills/two")
    for _again in range(2):  # also from the cache
        (skill,) = SkillCatalog.discover(cwd=home).all()
        assert (skill.id, skill.status, skill.directory) == ("user:two", "ok", str(folder))


def test_copies_with_the_same_content_in_two_agents_folders_are_listed_once(project: Path, home: Path, make_skill: Any) -> None:
    """A project that somebody else has cloned: nothing here knows who has put the copies there."""
    for folder in (".agents/skills", ".claude/skills"):
        make_skill(project / folder, "two", files={"run.py": "print(1)\n"})
    make_skill(home / ".claude/skills", "two", files={"run.py": "print(1)\n"})
    skills = SkillCatalog.discover(cwd=project).all()
    assert [(skill.id, skill.status) for skill in skills] == [("project:two", "ok"), ("user:two", "shadowed")]
    assert skills[0].directory == str(project / ".agents/skills/two")
    (project / ".claude/skills/two/run.py").write_text("print(2)\n")
    skills = SkillCatalog.discover(cwd=project).all()
    assert [(skill.id, skill.status) for skill in skills] == [
        ("project:two", "ok"),
        ("project:two#2", "shadowed"),
        ("user:two", "shadowed"),
    ]


def test_named_roots_are_exactly_those(home: Path, make_skill: Any, tmp_path: Path) -> None:
    make_skill(home / ".claude/skills", "not-asked-for")
    make_skill(tmp_path / "a", "one")
    make_skill(tmp_path / ".hidden", "two")
    catalog = SkillCatalog.discover(roots=[tmp_path / "a", str(tmp_path / ".hidden"), tmp_path / "a"], cwd=tmp_path)
    assert ids(catalog) == ["config:one", "config:two"]
    assert [(root.path, root.source) for root in catalog.roots] == [
        (str(tmp_path / "a"), "config"),
        (str(tmp_path / ".hidden"), "config"),
    ]
    assert list(SkillCatalog.discover(roots=[]).roots) == []


def test_a_named_root_may_be_a_skill_folder_or_its_file(make_skill: Any, tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "solo")
    for root in (folder, folder / "SKILL.md"):
        catalog = SkillCatalog.discover(roots=[root])
        assert ids(catalog) == ["config:solo"]
        assert catalog.get("solo").directory == str(folder)
        assert json.loads(catalog.to_json())["skills"][0]["directory"] == str(folder)


@pytest.mark.parametrize("kind", [str, Path])
def test_one_folder_may_be_named_without_a_list(kind: Any, tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "skills", "pdf")
    assert ids(SkillCatalog.discover(roots=kind(tmp_path / "skills"))) == ["config:pdf"]


def test_how_far_up_is_looked_can_be_set_and_a_project_only_narrows_it(
    tmp_path: Path, home: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, repository, below = home / "work", home / "work" / "repository", home / "work" / "repository" / "part"
    for folder, name in ((above, "above"), (repository, "middle"), (below, "below")):
        make_skill(folder / ".claude" / "skills", name)
    (repository / ".git").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings = tmp_path / "config" / "skillyard" / "skillyard.toml"
    settings.parent.mkdir(parents=True)

    def found() -> set[str]:
        catalog = SkillCatalog.discover(cwd=below, home=home, cache=False)
        return {skill.name for skill in catalog if skill.source == "project"}

    assert found() == {"middle", "below"}
    settings.write_text('[skills]\nupward = "home"\n')
    assert found() == {"above", "middle", "below"}
    (repository / "skillyard.toml").write_text('[skills]\nupward = "none"\n')
    assert found() == {"below"}
    settings.write_text('[skills]\nupward = "none"\n')
    (repository / "skillyard.toml").write_text('[skills]\nupward = "home"\n')
    assert found() == {"below"}
