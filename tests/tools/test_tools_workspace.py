"""Scripts used on a command line, on the files of a conversation, and in the shell of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.catalog import Permission, SkillCatalog
from skillyard.library import Catalog
from skillyard.permissions import WORKSPACE_TOOL_NAMES, ApprovalAnswer, ApprovalRequest, PolicyApprover
from skillyard.permissions.approvals import Decision
from skillyard.tools import SkillTools
from skillyard.workspace import Workspace, WorkspaceOptions, Workspaces

UPPER = "import pathlib, sys\npathlib.Path(sys.argv[2]).write_text(pathlib.Path(sys.argv[1]).read_text().upper())\n"


@pytest.fixture
def upper(skills_root: Path, make_skill: Callable[..., Path]) -> Path:
    return make_skill(skills_root, "upper", files={"scripts/to_upper.py": UPPER, "scripts/other.py": "print(1)"})


@pytest.mark.row("003-11")
async def test_a_script_gets_its_command_line_and_works_on_the_files_of_its_session(
    tools: Callable[..., SkillTools], upper: Path, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "in.txt").write_text("ada")
    made = tools()
    made.work_in("a", str(desk))
    call = {"name": "upper", "entry": "scripts/to_upper", "arguments": ["in.txt", "out.txt"]}
    result = await made.call("run_skill", call, session="a")
    assert result.ok, result.text
    assert result.data["files"] == ["out.txt"]
    assert "Files written:\n- out.txt" in result.text
    assert (desk / "out.txt").read_text() == "ADA"
    other = await made.call("run_skill", call, session="b")
    assert not other.ok, "another conversation has other files"


@pytest.mark.parametrize("arguments", ["in.txt", [1], {"a": 1}])
async def test_arguments_that_are_no_texts_are_refused(
    tools: Callable[..., SkillTools], upper: Path, arguments: object
) -> None:
    result = await tools().call("run_skill", {"skill": "upper", "arguments": arguments})
    assert result.code == "invalid_input"
    assert "a list of texts" in result.text


@pytest.mark.parametrize("setting", ["none", "read-only"])
async def test_what_a_skill_declares_about_files_holds(
    tools: Callable[..., SkillTools], skills_root: Path, make_skill: Callable[..., Path], tmp_path: Path, setting: str
) -> None:
    make_skill(
        skills_root,
        "upper",
        front_matter=f"name: upper\ndescription: Upper.\nsecurity:\n  filesystem: {setting}",
        files={"scripts/main.py": "import os\nprint(os.listdir('.'))\nopen('new', 'w')\n"},
    )
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk/in.txt").write_text("ada")
    made = tools()
    made.work_in("a", str(tmp_path / "desk"))
    result = await made.call("run_skill", {"skill": "upper"}, session="a")
    assert ("in.txt" in result.text) == (setting == "read-only")
    assert [path.name for path in (tmp_path / "desk").iterdir()] == ["in.txt"]


async def test_without_a_workspace_nothing_speaks_of_a_shell(tools: Callable[..., SkillTools], upper: Path) -> None:
    made = tools()
    assert not set(WORKSPACE_TOOL_NAMES) & set(made.names())
    loaded = await made.call("skill", {"skill": "upper"})
    assert "Run its scripts with `run_skill`." in loaded.text
    assert "bash" not in loaded.text
    assert "bash" not in made.prompt(style="xml-index").text
    reading_only = await tools(run_skills=False).call("skill", {"skill": "upper"})
    assert "Run its scripts" not in reading_only.text


async def test_a_skill_says_how_its_scripts_run_in_the_shell(
    skills_root: Path, make_skill: Callable[..., Path], upper: Path, tmp_path: Path
) -> None:
    make_skill(skills_root, "careful", files={"scripts/main.py": "print(1)\n"})
    make_skill(skills_root, "hidden", files={"scripts/main.py": "print(1)\n"})
    catalog = Catalog.discover(roots=[skills_root], cache=False)
    (tmp_path / "desk").mkdir()
    rules: dict[str, Permission] = {"careful": "ask", "hidden": "deny"}
    async with catalog.workspace(tmp_path / "desk", permissions=rules) as workspace:
        made = SkillTools(catalog, permissions=rules, workspace=workspace, approver=PolicyApprover("once"))
        assert set(WORKSPACE_TOOL_NAMES) <= set(made.names())
        assert "使用 bash 工具" in made.prompt(style="xml-index").text
        loaded = await made.call("skill", {"skill": "upper"})
        advice = "Run its scripts with `bash`, by their path in that folder; your files are in"
        assert f"Skill directory: {upper}\n{advice} {workspace.path}." in loaded.text
        described = await made.call("skills_load", {"skill": "upper"})
        assert described.data["skill"]["directoryPath"] == str(upper)  # type: ignore[index] # an object
        (tmp_path / "desk/in.txt").write_text("ada")
        done = await made.call("bash", {"command": f"python3 {upper}/scripts/to_upper.py in.txt out.txt"})
        assert done.ok, done.text
        assert (tmp_path / "desk/out.txt").read_text() == "ADA"
        for name in ("careful", "hidden"):
            unseen = await made.call("bash", {"command": f"ls {skills_root}/{name}"})
            assert unseen.code == "command_failed", "a shell asks nobody before it reads a skill"
        approved = await made.call("skill", {"skill": "careful"})
        assert "Run its scripts with `run_skill`." in approved.text


async def test_both_ways_to_load_a_skill_of_an_organisation_name_its_folder_in_the_shell_and_never_the_machine(
    make_skill: Callable[..., Path], tmp_path: Path
) -> None:
    project, data = tmp_path / "project", tmp_path / "home/organisations/acme"
    (project / ".git").mkdir(parents=True)
    make_skill(project / ".claude/skills", "shared")
    make_skill(data / ".claude/skills", "own")
    (tmp_path / "desk").mkdir()
    host = SkillCatalog.discover(cwd=project, home=tmp_path, cache=False)
    catalog = host.for_organisation(str(data), f"sqlite:///{data}/skillyard.db")
    async with Workspace(tmp_path / "desk", options=WorkspaceOptions(backend="bwrap")) as workspace:
        for made, folders in (
            (SkillTools(catalog), {"shared": "project/shared", "own": "~/.claude/skills/own"}),
            (
                SkillTools(catalog, workspace=workspace),
                {"shared": "/skills/project/shared", "own": "/skills/.claude/skills/own"},
            ),
        ):
            for name, folder in folders.items():
                described = await made.call("skills_load", {"skill": name})
                assert described.data["skill"]["directoryPath"] == folder  # type: ignore[index] # an object
                assert described.data["skill"]["skillMdPath"] == f"{folder}/SKILL.md"  # type: ignore[index] # an object
                loaded = await made.call("skill", {"skill": name})
                assert loaded.data["directory"] == folder
                assert str(tmp_path) not in described.text + loaded.text


async def test_each_session_has_a_workspace_of_its_own(tools: Callable[..., SkillTools], upper: Path, tmp_path: Path) -> None:
    async with Workspaces(tmp_path) as workspaces:
        made = tools(workspace=workspaces.get)
        assert "/workspace" not in str(made.definitions())
        await made.call("bash", {"command": "echo 3 > a.txt; mkdir -p deep; cd deep"}, session="ada")
        seen = await made.call("bash", {"command": "ls"}, session="bob")
        assert "a.txt" not in seen.text
        again = await made.call("bash", {"command": "basename $PWD; cat ../a.txt"}, session="ada")
        assert "deep\n3" in again.text
        assert workspaces.list() == ("ada", "bob")
        inside = await made.call("bash", {"command": "ls"}, session="ada/files")
        assert inside.code == "path_refused", "a workspace never lies in the files of another"


async def test_the_operators_rules_of_commands_hold_wherever_the_shell_stands(
    tmp_path: Path, skills_root: Path, home: Path
) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    rules = '[permissions.commands]\ndeny = ["Bash(rm:*)", "Read(secret/**)"]\nask = ["Bash(git:*)"]\n'
    (home / ".config/skillyard/skillyard.toml").write_text(rules, "utf-8")
    catalog = Catalog.discover(roots=[skills_root], home=home, cache=False)
    (tmp_path / "desk/secret").mkdir(parents=True)
    (tmp_path / "desk/secret/key").write_text("k3y")
    async with catalog.workspace(tmp_path / "desk") as workspace:
        made = SkillTools(catalog, workspace=workspace)
        asked = await made.call("bash", {"command": "git status"})
        assert (asked.code, "there is nobody to ask" in asked.text) == ("approval_rejected", True)
        assert (await made.call("bash", {"command": "cd secret"})).ok
        calls: dict[str, dict[str, object]] = {"bash": {"command": "cat key"}, "file_read": {"file_path": "key"}}
        for tool, arguments in calls.items():
            denied = await made.call(tool, arguments)
            assert (denied.code, "rule `deny Read(secret/**)`" in denied.text) == ("permission_denied", True), tool
        denied = await made.call("bash", {"command": "echo a | tee a; rm a"})
        assert (denied.code, "rm" in denied.text) == ("permission_denied", True)
        assert sorted(path.name for path in (tmp_path / "desk").rglob("*")) == ["key", "secret"]


class _Asked:
    """Answers yes and keeps what was asked."""

    def __init__(self, decision: Decision = "session") -> None:
        self.requests: list[ApprovalRequest] = []
        self.decision: Decision = decision

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.requests.append(request)
        return ApprovalAnswer(self.decision)


async def test_a_skill_that_a_session_can_write_is_asked_about_until_that_content_was_approved(
    tools: Callable[..., SkillTools], skills_root: Path, make_skill: Callable[..., Path], tmp_path: Path
) -> None:
    network = "name: sent\ndescription: Sends.\nsecurity:\n  network: allowlist\n  network_allowlist: [evil.example.com]"
    make_skill(skills_root, "sent", front_matter=network, files={"scripts/main.py": "print('sent')\n"})
    workspace = Workspace(tmp_path)
    nobody = tools(workspace=workspace)
    for tool, arguments in (
        ("skill", {"skill": "sent"}),
        ("run_skill", {"skill": "sent"}),
        ("skills_load", {"skill": "sent"}),
    ):
        refused = await nobody.call(tool, arguments)
        assert "was not approved" in refused.text or "needs approval" in refused.text, (tool, refused.text)
        assert "print(" not in refused.text
    assert "approvals approve" in (await nobody.call("skill", {"skill": "sent"})).text
    person = _Asked()
    made = tools(workspace=workspace, approver=person)
    assert (await made.call("skill", {"skill": "sent"})).ok
    assert (await made.call("skill", {"skill": "sent"})).ok
    assert [request.title for request in person.requests] == [
        "Load skill: sent (commands of a workspace can write its folder, so a model may have written or changed it)"
    ]
    (skills_root / "sent" / "scripts" / "main.py").write_text("print('changed')\n")
    person.decision = "reject"
    assert (await made.call("run_skill", {"skill": "sent"})).code == "approval_rejected"
    assert len(person.requests) == 2
    of_files = tools()
    of_files.work_in("a", str(tmp_path))
    assert (await of_files.call("skill", {"skill": "sent"}, session="a")).code == "approval_rejected"
    assert (await of_files.call("skill", {"skill": "sent"}, session="b")).ok


async def test_skills_elsewhere_or_where_a_session_cannot_write_are_not_asked_about(
    make_skill: Callable[..., Path], tmp_path: Path
) -> None:
    for root in (tmp_path / "desk" / ".claude" / "skills", tmp_path / "elsewhere"):
        make_skill(root, "plain")
        made = SkillTools(Catalog.discover(roots=[root], cache=False), workspace=Workspace(tmp_path / "desk"))
        assert (await made.call("skill", {"skill": "plain"})).ok
    (tmp_path / "desk" / "linked").symlink_to(tmp_path / "desk" / ".claude" / "skills")
    root = tmp_path / "desk" / "written"
    make_skill(root, "plain")
    (tmp_path / "way").symlink_to(root)
    made = SkillTools(Catalog.discover(roots=[tmp_path / "way"], cache=False), workspace=Workspace(tmp_path / "desk"))
    assert (await made.call("skill", {"skill": "plain"})).code == "approval_rejected"
