"""Settings files: where they are looked for, what they may say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillyard.catalog import Configuration, SkillCatalog
from skillyard.errors import InvalidConfiguration


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git root to work in."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def configuration(project: Path) -> Configuration:
    return SkillCatalog.discover(cwd=project).configuration


FULL = """
[skills]
paths = ["lib"]
allow-external-paths = true
prompt-section = false
profile = "spec"

[permissions]
match = "last"
[permissions.skills]
"*" = "allow"
"internal-*" = "deny"

[tools]
allowed-tools = "enforce"

[sandbox]
timeout-ms = 1000
network = "none"
"""


@pytest.mark.row("004-6")
def test_every_setting_of_skillyard_toml_is_read(project: Path) -> None:
    (project / "skillyard.toml").write_text(FULL)
    found = configuration(project)
    assert found.paths == ("lib",)
    assert (found.allow_external_paths, found.prompt_section, found.profile) == (True, False, "spec")
    assert dict(found.permissions) == {"*": "allow", "internal-*": "deny"}
    assert list(found.permissions) == ["*", "internal-*"]
    assert (found.permission_match, found.allowed_tools) == ("last", "enforce")
    assert dict(found.project_sandbox) == {"timeout-ms": 1000, "network": "none"}
    assert found.file == str(project / "skillyard.toml")


def test_the_same_tables_may_be_in_pyproject(project: Path) -> None:
    tables = FULL.replace("[", "[tool.skillyard.").replace('[tool.skillyard."lib"]', '["lib"]')
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n' + tables)
    found = configuration(project)
    assert (found.profile, found.allowed_tools, found.file) == ("spec", "enforce", str(project / "pyproject.toml"))


@pytest.mark.row("004-6")
def test_the_skills_block_of_ship_json_is_read_and_the_rest_is_ignored(project: Path) -> None:
    block = {"paths": ["a", "a", "~/b"], "allowExternalPaths": True, "promptSection": False, "other": 1}
    (project / "ship.json").write_text(json.dumps({"name": "x", "skills": block}))
    found = configuration(project)
    assert (found.paths, found.allow_external_paths, found.prompt_section) == (("a", "~/b"), True, False)


def test_without_a_file_everything_has_its_default(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert configuration(project) == Configuration(user_file=configuration(project).user_file, built_in=False)  # conftest


def test_the_closest_folder_wins_and_in_one_folder_skillyard_toml(project: Path) -> None:
    (project / "skillyard.toml").write_text('[skills]\nprofile = "minimal"\n')
    (project / "pyproject.toml").write_text('[tool.skillyard.skills]\nprofile = "full"\n')
    below = project / "a/b"
    below.mkdir(parents=True)
    assert configuration(below).profile == "minimal"
    (project / "a/ship.json").write_text('{"skills": {"promptSection": false}}')
    assert (configuration(below).profile, configuration(below).prompt_section) == ("standard", False)


def test_the_users_own_file_adds_roots_and_its_permissions_hold_against_the_project(
    project: Path, home: Path, make_skill: object
) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text(
        '[skills]\npaths = ["~/mine"]\nprofile = "minimal"\n[permissions.skills]\n"deploy" = "deny"\n'
    )
    (project / "skillyard.toml").write_text('[skills]\npaths = ["own"]\n[permissions.skills]\n"*" = "allow"\n')
    catalog = SkillCatalog.discover(cwd=project)
    found = catalog.configuration
    assert (found.paths, found.user_paths, found.profile) == (("own",), ("~/mine",), "minimal")
    assert dict(found.permissions) == {"deploy": "deny"}
    assert [root.status for root in catalog.roots if root.path == str(home / "mine")] == ["missing"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("skillyard.toml", "[skills", "is not TOML"),
        ("ship.json", "{", "is not JSON"),
        ("skillyard.toml", "[skills] # café", "is not UTF-8 text"),
        ("skillyard.toml", "[skills]\npaths = 'x'", "skills.paths must be a list of paths"),
        ("skillyard.toml", "[skills]\npaths = [1]", "skills.paths must be a list of paths"),
        ("skillyard.toml", "[skills]\npath = []", "skills.path must be one of paths"),
        ("skillyard.toml", "skills = 1", "skills must be a table"),
        ("skillyard.toml", "[skills]\nprofile = 'strict'", "skills.profile must be one of minimal"),
        ("skillyard.toml", "[skills]\nprompt-section = 'no'", "skills.prompt-section must be true or false"),
        ("skillyard.toml", "[permissions.skills]\nx = 'maybe'", 'permissions.skills."x" must be one of allow'),
        ("skillyard.toml", "[permissions]\nskills = 1", "permissions.skills must be a table"),
        ("skillyard.toml", "[permissions]\nmatch = 'best'", "permissions.match must be one of first, last"),
        ("skillyard.toml", "[tools]\nallowed-tools = true", "tools.allowed-tools must be one of off"),
        ("ship.json", '{"skills": {"allowExternalPaths": "yes"}}', "skills.allow-external-paths must be true or false"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error_that_names_the_file_and_the_key(
    file: str, text: str, said: str, project: Path
) -> None:
    (project / file).write_text(text, "latin-1")
    with pytest.raises(InvalidConfiguration) as caught:
        configuration(project)
    assert said in caught.value.message
    assert str(project / file) in caught.value.message


def test_a_settings_file_that_is_a_folder_is_an_error_with_a_sentence(project: Path) -> None:
    (project / "skillyard.toml").mkdir()
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        configuration(project)


def test_the_configured_profile_decides_what_is_broken(project: Path, make_skill: object) -> None:
    folder = project / ".claude/skills/bare"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("# No front matter\n")
    assert SkillCatalog.discover(cwd=project).get("bare").status == "broken"
    (project / "skillyard.toml").write_text('[skills]\nprofile = "minimal"\n')
    assert SkillCatalog.discover(cwd=project).get("bare").status == "ok"
    assert SkillCatalog.discover(cwd=project, profile="standard").get("bare").status == "broken"


def test_a_slip_in_the_name_of_a_table_is_refused_and_never_a_rule_that_does_not_hold(project: Path) -> None:
    (project / "skillyard.toml").write_text('[permisions.skills]\n"internal-*" = "deny"\n')
    with pytest.raises(InvalidConfiguration, match="permisions must be one of the tables skills, permissions"):
        configuration(project)


def test_a_project_can_tighten_but_not_loosen_what_its_user_set(project: Path, home: Path) -> None:
    user = home / ".config/skillyard/skillyard.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[tools]\nallowed-tools = "advise"\n[sandbox]\nmemory-mb = 64\n')
    (project / "skillyard.toml").write_text('[tools]\nallowed-tools = "off"\n[sandbox]\nmemory-mb = 4096\ntimeout-ms = 500\n')
    found = configuration(project)
    assert found.allowed_tools == "advise"
    assert (dict(found.sandbox), dict(found.project_sandbox)) == ({"memory-mb": 64}, {"memory-mb": 4096, "timeout-ms": 500})
    (project / "skillyard.toml").write_text('[tools]\nallowed-tools = "enforce"\n')
    assert configuration(project).allowed_tools == "enforce"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("skillyard.toml", ".".join(["a"] * 200_000) + " = 1"),
        ("skillyard.toml", "x = {" + ".".join(["a"] * 200_000) + " = 1}"),
        ("ship.json", json.dumps({"skills": {"paths": [f"p{number}" for number in range(50_000)]}})),
    ],
)
def test_a_settings_file_cannot_keep_a_reader_busy(project: Path, file: str, text: str) -> None:
    (project / file).write_text(text)
    with pytest.raises(InvalidConfiguration, match=r"dots|at most 256 paths"):
        configuration(project)


def test_a_project_cannot_choose_its_sandbox_or_reach_out_when_its_user_said_no(project: Path, home: Path) -> None:
    user = home / ".config/skillyard/skillyard.toml"
    user.parent.mkdir(parents=True)
    user.write_text("[skills]\nallow-external-paths = false\n")
    (project / "skillyard.toml").write_text('[skills]\npaths = ["/"]\nallow-external-paths = true\n')
    assert not configuration(project).allow_external_paths
    (project / "skillyard.toml").write_text('[sandbox]\nbackend = "landlock"\n')
    with pytest.raises(InvalidConfiguration, match="not a project's to choose"):
        configuration(project)


def test_servers_are_the_users_own(project: Path, home: Path) -> None:
    own = home / ".config/skillyard/skillyard.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[servers.weather]\ncommand = "weather"\n')
    assert dict(configuration(project).servers) == {"weather": {"command": "weather"}}
    (project / "skillyard.toml").write_text("[sandbox]\ntimeout-ms = 1000\n")
    assert dict(configuration(project).servers) == {"weather": {"command": "weather"}}


@pytest.mark.parametrize(
    ("name", "text"),
    [("skillyard.toml", '[servers.x]\ncommand = "x"\n'), ("pyproject.toml", '[tool.skillyard.servers.x]\nurl = "http://x"\n')],
)
def test_a_project_may_not_register_servers(project: Path, name: str, text: str) -> None:
    (project / name).write_text(text)
    with pytest.raises(InvalidConfiguration, match="may not register") as caught:
        configuration(project)
    assert caught.value.details["key"] == "servers"
