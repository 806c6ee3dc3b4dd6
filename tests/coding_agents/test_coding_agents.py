"""Skills in the folders of coding agents, and our server in their configuration: written, followed, counted, left alone."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.catalog import SkillCatalog
from skillyard.catalog.user_changes import save_state
from skillyard.coding_agents import (
    McpServerEntry,
    SkillsFolder,
    chosen_agents,
    coding_agents,
    connect,
    connection,
    disconnect,
    skills_folders,
)
from skillyard.coding_agents.mcp_configuration import json_value, with_json_value, without_json_value
from skillyard.errors import (
    InvalidConfiguration,
    InvalidInput,
    LocalEdits,
    PathRefused,
    SignerChanged,
    SkillNotFound,
    SourceChanged,
)
from skillyard.interop.package_checks import CLIENTS
from skillyard.packages import SigningKey, sign_tree
from skillyard.registry import Registry

Make = Callable[..., Path]
SERVER = McpServerEntry(("/usr/bin/skillyard", "mcp"), {"SKILLYARD_HOME": "/data"})


@pytest.fixture
def installed(tmp_path: Path, make_skill: Make) -> Registry:
    """A registry with the skill `tidy`, whose source is in `sources`."""
    registry = Registry(str(tmp_path / "data"))
    registry.install(str(make_skill(tmp_path / "sources", "tidy")))
    return registry


def _add(registry: Registry, *folders: SkillsFolder, copy: bool = False) -> list[tuple[str, str | None]]:
    skill_id, current = registry.current_folder("tidy")
    reports = registry.links.add("tidy", str(current), folders, skill_id=skill_id, copy=copy)
    return [(report.status, report.reason) for report in reports]


def _update(registry: Registry, tmp_path: Path, text: str) -> Any:
    (tmp_path / "sources/tidy/more.md").write_text(text)
    (result,) = registry.update("tidy").results
    return result


def test_every_known_agent_has_folders_and_servers_that_can_be_written(home: Path) -> None:
    known = coding_agents()
    assert set(CLIENTS) - {"api"} <= set(known)
    for agent in known.values():
        assert agent.user_skills.startswith(f"{home}/") and agent.project_skills[0] == "."
        for scope in agent.mcp.files if agent.mcp else ():
            project = None if scope == "user" else str(home / "project")
            change = connect(agent, SERVER, project=project)
            values = tomllib.loads(change.after.decode()) if change.path.endswith(".toml") else json.loads(change.after)
            assert agent.mcp is not None and list(values) == [agent.mcp.key[0]]
            assert "/usr/bin/skillyard" in str(values) and "{" not in str(values[agent.mcp.key[0]]).replace("{'", "")
            reached = connect(agent, McpServerEntry(url="https://a.example/mcp"), project=project)
            assert "https://a.example/mcp" in reached.after.decode()


def test_agents_are_chosen_by_name_or_by_what_is_on_the_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(InvalidInput, match="no coding agent was found"):
        chosen_agents(["auto"])
    (home / ".codex").mkdir()
    (home / ".gemini").mkdir()
    assert [agent.name for agent in chosen_agents(["auto"])] == ["codex", "gemini"]
    assert [agent.name for agent in chosen_agents(["gemini,claude", "claude"])] == ["claude", "gemini"]
    with pytest.raises(InvalidInput, match="'clade' is not a coding agent") as refused:
        chosen_agents(["clade"])
    assert refused.value.hint == "did you mean claude?"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    claude = coding_agents()["claude"]
    assert claude.user_skills == f"{home}/elsewhere/skills"
    assert connect(claude, SERVER).path == f"{home}/elsewhere/.claude.json"


def test_a_link_is_shared_counted_and_goes_with_the_last_agent(installed: Registry, home: Path) -> None:
    folders = skills_folders(chosen_agents(["codex,gemini,claude"]))
    assert [folder.agents for folder in folders] == [("claude",), ("codex", "gemini")]
    assert _add(installed, *folders) == [("linked", None)] * 2
    assert _add(installed, *folders) == [("unchanged", None)] * 2
    shared = home / ".agents/skills/tidy"
    assert shared.joinpath("SKILL.md").exists() and shared.is_symlink()
    environ = {"HOME": str(home), "SKILLYARD_HOME": str(installed.root.parent), "SKILLYARD_BUILT_IN": "off"}
    (skill,) = SkillCatalog.discover(cwd=home, environ=environ).all()
    assert (skill.id, skill.status) == ("installed:tidy", "ok")
    (kept,) = installed.links.remove("tidy", ["gemini"])
    assert (kept.status, kept.reason) == ("kept", "still wanted there by codex")
    assert [report.status for report in installed.links.remove("tidy")] == ["removed", "removed"]
    assert not os.path.lexists(shared)
    with pytest.raises(SkillNotFound):
        installed.links.remove("tidy")


def test_agents_whose_folders_are_one_by_a_link_share_an_entry(installed: Registry, home: Path) -> None:
    shared = home / ".agents/skills"
    shared.mkdir(parents=True)
    for folder in (".claude", ".continue"):
        (home / folder).mkdir()
        (home / folder / "skills").symlink_to(shared)
    claude, codex, carries_copies = (skills_folders(chosen_agents([name])) for name in ("claude", "codex", "continue"))
    assert _add(installed, *claude) == [("linked", None)]
    assert _add(installed, *codex) == [("unchanged", None)]
    (link,) = installed.links.links("tidy")
    assert link.agents == ("claude", "codex")
    (kept,) = installed.links.remove("tidy", ["claude"])
    assert (kept.status, kept.reason) == ("kept", "still wanted there by codex")
    assert (shared / "tidy/SKILL.md").exists()
    assert _add(installed, *carries_copies) == [("copied", None)]
    assert _add(installed, *claude) == [("unchanged", None)]  # no link, which the other agent would not see
    assert [report.status for report in installed.links.remove("tidy", ["codex", "continue"])] == ["kept"]
    assert [report.status for report in installed.links.remove("tidy", ["claude"])] == ["removed"]
    assert not os.path.lexists(shared / "tidy")


def test_an_agent_that_sees_no_links_gets_a_copy(installed: Registry, home: Path) -> None:
    folders = skills_folders(chosen_agents(["continue,claude"]))
    assert {folder.agents[0]: folder.copies for folder in folders} == {"claude": False, "continue": True}
    assert {status for status, _ in _add(installed, *folders)} == {"linked", "copied"}
    assert not (home / ".continue/skills/tidy").is_symlink() and (home / ".claude/skills/tidy").is_symlink()
    installed.uninstall("tidy")
    assert not (home / ".continue/skills/tidy").exists()


def test_copies_follow_update_rollback_and_uninstall(installed: Registry, tmp_path: Path) -> None:
    copy, link = SkillsFolder(str(tmp_path / "a"), ("claude",)), SkillsFolder(str(tmp_path / "b"), ("codex",))
    _add(installed, copy, copy=True)
    _add(installed, link)
    assert _update(installed, tmp_path, "new").warnings == ()
    assert (tmp_path / "a/tidy/more.md").read_text() == (tmp_path / "b/tidy/more.md").read_text() == "new"
    installed.rollback("tidy")
    assert not (tmp_path / "a/tidy/more.md").exists() and not (tmp_path / "b/tidy/more.md").exists()
    installed.uninstall("tidy")
    assert not os.path.lexists(tmp_path / "a/tidy") and not os.path.lexists(tmp_path / "b/tidy")
    assert {check.state for check in installed.links.check()} == {"withdrawn"}
    installed.rollback("tidy", force=True)
    assert {check.state for check in installed.links.check()} == {"ok"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["tidy"]
    (tmp_path / "b/tidy").unlink()
    installed.uninstall("tidy")
    installed.rollback("tidy", force=True)
    assert not os.path.lexists(tmp_path / "b/tidy")  # somebody took it away before
    installed.uninstall("tidy", prune=True)
    assert installed.links.links() == () and list((tmp_path / "a").iterdir()) == []


def test_a_skill_that_is_off_is_out_of_the_folders_and_stays_so_when_it_is_updated(installed: Registry, tmp_path: Path) -> None:
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)))
    data = str(installed.root.parent)
    for state in ("off", "manual"):
        save_state(data, "installed:tidy", state)
        assert installed.agent_folders.follow("tidy") == ()
        _update(installed, tmp_path, f"new {state}")
        assert not os.path.lexists(tmp_path / "a/tidy")
    save_state(data, "installed:tidy", "name-only")
    installed.agent_folders.follow("tidy")
    assert (tmp_path / "a/tidy/more.md").read_text() == "new manual"


def test_an_edited_copy_is_kept_and_can_become_a_version(installed: Registry, tmp_path: Path) -> None:
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)), SkillsFolder(str(tmp_path / "b"), ("codex",)), copy=True)
    (tmp_path / "a/tidy/notes.md").write_text("mine")
    (warning,) = _update(installed, tmp_path, "new").warnings
    assert "the copy was edited and is left as it is" in warning
    assert not (tmp_path / "a/tidy/more.md").exists() and (tmp_path / "b/tidy/more.md").exists()
    (report,) = installed.links.remove("tidy", ["claude"])
    assert report.status == "refused" and (tmp_path / "a/tidy/notes.md").exists()
    (adopted,) = installed.adopt("tidy").results
    assert adopted.status == "updated" and "it comes from an upload" in "".join(adopted.warnings)
    assert (tmp_path / "b/tidy/notes.md").read_text() == "mine"
    assert {check.state for check in installed.links.check()} == {"ok"}
    for name in "ab":
        (tmp_path / name / "tidy/notes.md").write_text(f"mine, {name}")
    with pytest.raises(LocalEdits, match="more than one copy"):
        installed.adopt("tidy")
    assert str(tmp_path / "a/tidy: the copy was edited") in str(installed.adopt("tidy", agent="codex").results[0].warnings)


def test_an_adopted_edit_is_offered_what_its_source_has_and_keeps_until_it_is_told(installed: Registry, tmp_path: Path) -> None:
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)), copy=True)
    for text in ("mine", "mine again"):
        (tmp_path / "a/tidy/notes.md").write_text(text)
        installed.adopt("tidy")
    edit = installed.installed.current("tidy").version
    pending = installed.pending_update("tidy")
    assert (pending.state, "its source still has" in str(pending.reason)) == ("current", True)
    assert _update_result(installed) == ("unchanged", edit, ())
    (tmp_path / "sources/tidy/more.md").write_text("upstream")
    pending = installed.pending_update("tidy")
    assert (pending.state, "--theirs" in str(pending.reason)) == ("diverged", True)
    assert pending.difference is not None and {one.path for one in pending.difference.files} == {"more.md", "notes.md"}
    status, version, (warning,) = _update_result(installed)
    assert (status, version, "what is here was edited" in warning) == ("kept", edit, True)
    assert (tmp_path / "a/tidy/notes.md").read_text() == "mine again"
    (theirs,) = installed.update("tidy", theirs=True).results
    assert (theirs.status, theirs.warnings) == ("updated", ())
    assert not (tmp_path / "a/tidy/notes.md").exists() and (tmp_path / "a/tidy/more.md").read_text() == "upstream"
    assert installed.rollback("tidy", edit, accept_source=True).version == edit
    assert installed.installed.history("tidy")[0].status == "success"


def test_an_adopted_edit_takes_nothing_of_another_signer_from_its_source(installed: Registry, tmp_path: Path) -> None:
    sign_tree(tmp_path / "sources/tidy", SigningKey.new())
    installed.update("tidy", accept_signer=True)
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)), copy=True)
    (tmp_path / "a/tidy/notes.md").write_text("mine")
    installed.adopt("tidy", accept_signer=True)
    (tmp_path / "sources/tidy/more.md").write_text("of somebody else")
    sign_tree(tmp_path / "sources/tidy", SigningKey.new())
    with pytest.raises(SignerChanged):
        installed.update("tidy", theirs=True)


def _update_result(registry: Registry) -> tuple[str, str | None, tuple[str, ...]]:
    (result,) = registry.update("tidy").results
    return result.status, result.version, result.warnings


def test_a_rollback_from_an_adopted_edit_asks_only_about_other_sources(
    installed: Registry, tmp_path: Path, make_skill: Make
) -> None:
    """The edited version has its source and signer; a version of others before it is asked about as without the edit."""
    first = installed.installed.current("tidy").version
    other = make_skill(tmp_path / "other", "tidy")
    (other / "more.md").write_text("of others")
    (result,) = installed.install(str(other), accept_source=True).results
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)), copy=True)
    for text in ("mine", "mine again"):
        (tmp_path / "a/tidy/notes.md").write_text(text)
        installed.adopt("tidy")
    with pytest.raises(SourceChanged):
        installed.rollback("tidy", first)
    middle = installed.rollback("tidy").version
    assert (tmp_path / "a/tidy/notes.md").read_text() == "mine"
    assert installed.rollback("tidy").version == result.version
    assert not (tmp_path / "a/tidy/notes.md").exists()
    with pytest.raises(SourceChanged):  # an upload is not the source that is current
        installed.rollback("tidy", middle, force=True)


def test_a_rollback_from_an_adopted_edit_behind_a_signature_is_asked(installed: Registry, tmp_path: Path) -> None:
    unsigned = installed.installed.current("tidy").version
    (tmp_path / "sources/tidy/more.md").write_text("signed")
    sign_tree(tmp_path / "sources/tidy", SigningKey.new())
    (signed,) = installed.update("tidy").results
    _add(installed, SkillsFolder(str(tmp_path / "a"), ("claude",)), copy=True)
    (tmp_path / "a/tidy/notes.md").write_text("mine")
    installed.adopt("tidy", accept_signer=True)
    with pytest.raises(SourceChanged):
        installed.rollback("tidy", unsigned)
    assert installed.rollback("tidy").version == signed.version


@pytest.mark.parametrize("copy", [False, True])
def test_a_folder_that_cannot_be_written_is_refused_alone(installed: Registry, tmp_path: Path, copy: bool) -> None:
    (tmp_path / "taken").write_text("a file stands where the folder belongs")
    closed, good = SkillsFolder(str(tmp_path / "taken/skills"), ("codex",)), SkillsFolder(str(tmp_path / "good"), ("claude",))
    reports = _add(installed, closed, good, copy=copy)
    assert [status for status, _ in reports] == ["refused", "copied" if copy else "linked"]
    assert reports[0][1]
    assert (tmp_path / "good/tidy/SKILL.md").is_file()
    moved = _update(installed, tmp_path, "new")  # the folder that is there follows, and nothing is remembered of the other
    assert (moved.status, moved.warnings) == ("updated", ())
    assert (tmp_path / "good/tidy/more.md").read_text() == "new"
    (tmp_path / "good/tidy").rename(tmp_path / "aside")
    (tmp_path / "good").rmdir()
    (tmp_path / "good").write_text("now here too")
    assert _update(installed, tmp_path, "newer").status == "updated"  # an agent's folder stops no update


def test_what_others_put_there_is_left_alone(installed: Registry, tmp_path: Path) -> None:
    (tmp_path / "a/tidy").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/tidy").symlink_to(installed.current_folder("tidy")[1])
    (tmp_path / "c").write_text("no folder")
    places = [SkillsFolder(str(tmp_path / name), ("claude",)) for name in "abcd"]
    (foreign, _), (same, why), (broken, system), (made, _) = _add(installed, *places)
    assert [foreign, same, broken, made] == ["refused", "unchanged", "refused", "linked"]
    assert "without Skillyard" in str(why) and "cannot be written" in str(system)
    (tmp_path / "d/tidy").unlink()
    (tmp_path / "d/tidy").mkdir()
    assert "something else is there now" in _update(installed, tmp_path, "x").warnings[0]
    assert [check.state for check in installed.links.check()] == ["foreign"]
    assert installed.links.remove("tidy")[0].status == "removed"
    assert (tmp_path / "d/tidy").is_dir()
    installed.links.path.write_text("{")
    assert "were not looked at" in _update(installed, tmp_path, "y").warnings[0]


def test_a_project_leads_nothing_out_of_itself(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".agents").mkdir(parents=True)
    (project / ".claude").symlink_to(".agents")  # inside
    (project / ".kiro").symlink_to(tmp_path / "elsewhere")
    (project / ".mcp.json").symlink_to(home / ".claude.json")
    (home / ".claude.json").write_text("{}")
    known = coding_agents()
    assert skills_folders([known["claude"]], str(project))[0].path == f"{project}/.claude/skills"
    with pytest.raises(PathRefused, match=r"leads out of the project, to .*/elsewhere/skills"):
        skills_folders([known["kiro"]], str(project))
    with pytest.raises(PathRefused, match=r"\.mcp\.json leads out of the project"):
        connect(known["claude"], SERVER, project=str(project))
    assert connection(known["claude"], project=str(project)) is None
    assert (home / ".claude.json").read_text() == "{}"


def test_connecting_keeps_comments_order_modes_and_a_backup(home: Path, tmp_path: Path) -> None:
    codex, opencode = coding_agents()["codex"], coding_agents()["opencode"]
    toml, jsonc = home / ".codex/config.toml", home / ".config/opencode/opencode.json"
    texts = {
        toml: '# mine\nmodel = "m" # best\n\n[mcp_servers.other]\ncommand = "x"\n\n[tui]\ntheme = "dark"\n',
        jsonc: '{\n\t// mine\n\t"model": "m", // best\n\t"mcp": {\n\t\t"other": {"type": "local"} // keep\n\t}\n}\n',
    }
    for (path, text), agent in zip(texts.items(), (codex, opencode), strict=True):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o640)
        change = connect(agent, SERVER)
        assert path.read_text() == text and all(line.startswith("+") or "other" in line for line in change.lines)
        backup = change.write(tmp_path / "data")
        assert backup is not None and backup.read_text() == text and path.stat().st_mode & 0o777 == 0o640
        assert [word for word in ("mine", "best", "other") if word not in path.read_text()] == []
        assert connection(agent) is not None and connect(agent, SERVER).status == "unchanged"
        with pytest.raises(InvalidConfiguration, match="changed meanwhile"):
            change.write(tmp_path / "data")
        disconnect(agent).write(tmp_path / "data")
        assert path.read_text() == text and connection(agent) is None


@pytest.mark.parametrize(
    "before",
    [
        "",
        "a = 1 # mine\n",
        'a = 1\n[[mcp_servers]]\nname = "other" # mine\ncommand = "x"\n\n[z]\ny = 1\n',
        'mcp_servers = [{name = "other"}]\na = 1 # mine\n',
    ],
)
def test_servers_that_stand_in_a_list_are_found_changed_and_removed_by_their_names(home: Path, before: str) -> None:
    vibe, file, others = coding_agents()["vibe"], home / ".vibe/config.toml", tomllib.loads(before)
    file.parent.mkdir()
    file.write_text(before)
    connect(vibe, SERVER).write(home / "data")
    connect(vibe, McpServerEntry(url="https://a.example/mcp")).write(home / "data")
    ours = {"name": "skillyard", "transport": "streamable-http", "url": "https://a.example/mcp"}
    assert tomllib.loads(file.read_text()) == others | {"mcp_servers": [*others.get("mcp_servers", []), ours]}
    assert connection(vibe) == ours and ("mine" in before) == ("mine" in file.read_text())
    assert connect(vibe, McpServerEntry(url="https://a.example/mcp")).status == "unchanged"
    disconnect(vibe).write(home / "data")
    assert tomllib.loads(file.read_text()) == others and connection(vibe) is None
    file.write_text("[mcp_servers.other]\n")
    with pytest.raises(InvalidConfiguration, match="not a list"):
        connect(vibe, SERVER)


@pytest.mark.parametrize("text", ["[1]", '{"mcpServers": 3}', '{"a": 1,}', "{", "\udcff", '{"a": ' * 200, "nul"])
def test_a_configuration_that_cannot_be_understood_is_not_written(home: Path, text: str) -> None:
    file = home / ".claude.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidConfiguration, match=r"\.claude\.json cannot be understood"):
        connect(coding_agents()["claude"], SERVER)
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")
    with pytest.raises(InvalidInput, match="it is not known where Goose lists MCP servers"):
        connect(coding_agents()["goose"], SERVER)
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text("mcp_servers = 3\n")
    with pytest.raises(InvalidConfiguration):
        connect(coding_agents()["codex"], SERVER)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    before=st.dictionaries(st.text(max_size=3), _VALUES, max_size=3),
    indent=st.sampled_from([None, 2, "\t"]),
    keys=st.lists(st.text(max_size=3), min_size=1, max_size=3),
    value=_VALUES,
)
def test_one_value_is_changed_and_every_other_stays(
    before: dict[str, Any], indent: Any, keys: list[str], value: object
) -> None:
    data = json.dumps(before, indent=indent).encode()
    try:
        changed = with_json_value(data, keys, value)
    except ValueError as error:
        assert "is not an object" in str(error)
        return
    holder: Any = json_value(changed)
    for key in keys[:-1]:
        holder = holder[key]
    assert holder[keys[-1]] == value
    again = without_json_value(changed, keys)
    assert without_json_value(again, keys) == again
    assert {key: value for key, value in json_value(again).items() if key != keys[0]} == {
        key: value for key, value in before.items() if key != keys[0]
    }
