"""`skillyard environment`, `run --with`, `show` and `doctor`: what a skill needs, who grants it, and what a failure says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import Skill
from skillyard.environments import SkillGrant, SkillGrants
from skillyard.errors import DependenciesUnavailable
from skillyard.sandbox import GrantedEnvironment

Call = Callable[..., Any]
_SCRIPT = "import subprocess\nsubprocess.run(['qpdf', '--version'], check=True)\n"


@pytest.fixture
def skills(skills_root: Path, make_skill) -> Path:
    make_skill(skills_root, "forms", files={"scripts/main.py": _SCRIPT, "scripts/read.py": "import nosuchmodule_x\n"})
    make_skill(skills_root, "plain")
    return skills_root


def test_what_a_skill_needs_is_shown_granted_and_taken_back(call: Call, skills: Path) -> None:
    shown = call("environment", "show", "forms", "--root", skills)
    assert shown.code == 0
    assert "qpdf" in shown.out
    assert "scripts/main.py:2" in shown.out
    assert "`skillyard environment allow forms`" in shown.err
    every = call("environment", "--root", skills, "--json")
    assert [one["name"] for one in every.data["skills"]] == ["forms"]
    assert every.data["skills"][0]["proposed"]["programs"] == ["qpdf"]

    refused = call("environment", "allow", "forms", "--with", "program:qpdf", "--root", skills)
    assert refused.code != 0
    assert "--yes" in refused.err
    allowed = call("environment", "allow", "forms", "--with", "program:qpdf", "--yes", "--root", skills, "--json")
    assert allowed.data["granted"]["programs"] == ["qpdf"]
    assert {item["name"]: item["state"] for item in allowed.data["items"]}["qpdf"] == "granted"
    run = call("run", "forms", "--entry", "scripts/main.py", "--root", skills)
    assert run.code == 0, run.err
    assert call("environment", "revoke", "forms", "--root", skills, "--json").data["granted"]["programs"] == []


def test_a_proposal_with_a_package_that_cannot_be_had_grants_nothing_and_offers_the_rest(
    call: Call, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow = SkillGrants.allow

    def installing(grants: SkillGrants, skill: Skill, grant: SkillGrant) -> GrantedEnvironment:
        if wrong := [name for name in grant.packages if name.startswith("nosuch")]:
            raise DependenciesUnavailable("the packages cannot be installed", hint="uv says no", dependencies=wrong)
        return allow(grants, skill, grant)

    monkeypatch.setattr(SkillGrants, "allow", installing)
    refused = call("environment", "allow", "forms", "--yes", "--root", skills)
    assert refused.code != 0
    assert "`skillyard environment allow forms --without nosuchmodule-x` grants the rest" in refused.err
    shown = call("environment", "show", "forms", "--root", skills, "--json")
    assert shown.data["granted"] == {"packages": [], "npm": [], "programs": [], "build": False, "registries": False}
    words = ("environment", "allow", "forms", "--yes", "--root", skills, "--json", "--without")
    assert call(*words, "nosuchmodule-x").data["granted"]["programs"] == ["qpdf"]
    assert "it proposes nosuchmodule-x" in call(*words, "nosuchmodul").err


def test_a_failed_run_says_which_grant_would_give_it_what_was_missing(call: Call, skills: Path) -> None:
    answer = call("run", "forms", "--entry", "scripts/read.py", "--root", skills, "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "DEPENDENCY_RESOLUTION_ERROR"
    assert "`--with nosuchmodule-x` gives it for one run" in answer.data["error"]["message"]
    assert "[skills.forms]" in answer.data["error"]["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--with", "../x"), "is not a package by name"),
        (("--with", "program:nosuchprogram"), "is not installed on this machine"),
    ],
)
def test_what_cannot_be_given_to_a_run_is_refused_before_it(
    call: Call, skills: Path, words: tuple[str, ...], message: str
) -> None:
    answer = call("run", "forms", "--entry", "scripts/main.py", *words, "--root", skills)
    assert answer.code != 0
    assert message in answer.err


def test_a_command_in_a_workspace_gets_what_it_is_given(call: Call, skills: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    given = ("workspace", "exec", "--dir", tmp_path / "work", "--root", skills)
    answer = call(*given, "--with", "program:qpdf", "--json", "--", "qpdf --version")
    assert answer.data["text"].startswith("qpdf version")
    refused = call(*given, "--with", "program:nosuchprogram", "--", "true")
    assert refused.code != 0
    assert "is not installed on this machine" in refused.err
    missing = call(*given, "--", "pip install pypdf")
    assert missing.code == 1
    assert missing.err.splitlines()[-1] == "hint: not granted here: pypdf; `--with` of this command grants it"


def test_show_and_doctor_tell_what_is_not_granted(call: Call, skills: Path) -> None:
    shown = call("show", "forms", "--root", skills)
    assert "Packages and programs" in shown.out
    assert "allow: skillyard environment allow forms" in shown.out
    checks = {check["name"]: check for check in call("doctor", "--root", skills, "--json").data["checks"]}
    assert "qpdf" in checks["skill user:forms" if "skill user:forms" in checks else _only(checks)]["detail"]


def _only(checks: dict[str, Any]) -> str:
    return next(name for name in checks if name.endswith("forms"))


def test_prune_is_about_all_skills(call: Call, skills: Path) -> None:
    assert "removed 0 environments" in call("environment", "prune").out
    assert call("environment", "prune", "forms").code != 0
    assert call("environment", "allow").code != 0
