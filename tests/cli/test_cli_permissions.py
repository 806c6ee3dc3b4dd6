"""`skillyard permissions`: the rules of every level, and what they say of one command."""

from __future__ import annotations

import pytest

RULES = """
[permissions.commands]
allow = ["Bash(git:*)", "Bash(head:*)", "Read(src/**)"]
deny = ["Bash(git push:*)"]
"""


@pytest.fixture
def operator(tmp_path, monkeypatch):
    """Rules of the user's own, and one that the project adds."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    file = tmp_path / "conf/skillyard/skillyard.toml"
    file.parent.mkdir(parents=True)
    file.write_text(RULES, "utf-8")
    return file


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("git log | head -3", 0, "allow\n  allowed by the operator's rule `allow Bash(git:*), allow Bash(head:*)`"),
        ("git -C x push", 1, "deny\n  denied by the operator's rule `deny Bash(git push:*)`"),
        ("git log; git commit -m x ./a", 1, "  it is about: git commit -m x ./a\n  files it names: ./a\n  operator: allow, "),
        ("git log; id", 1, "ask\n  to be asked about by the operator's rules: no rule matches\n  it is about: id\n"),
    ],
)
def test_a_command_is_decided_with_the_reason(call, operator, project, command, code, said):
    (project / "skillyard.toml").write_text('[permissions.commands]\nask = ["Bash(git commit:*)"]\n', "utf-8")
    answer = call("permissions", "check-command", command)
    assert answer.code == code
    assert said in answer.out


def test_the_rules_of_every_level_are_listed(call, operator, project):
    (project / "skillyard.toml").write_text('[permissions.commands]\ndefault = "ask"\n', "utf-8")
    rows = [(rule["level"], rule["permission"], rule["rule"]) for rule in call("permissions", "--json").data["rules"]]
    assert rows == [
        ("operator", "deny", "Bash(git push:*)"),
        ("operator", "allow", "Bash(git:*)"),
        ("operator", "allow", "Bash(head:*)"),
        ("operator", "allow", "Read(src/**)"),
        ("project", "ask", "everything else"),
    ]
    assert "Bash(git push:*)" in call("permissions").out


def test_the_skills_that_are_followed_and_files_are_decided_too(call, operator, skills_root, make_skill):
    make_skill(skills_root, "log", front_matter="name: log\ndescription: Reads logs.\nallowed-tools: Bash(git log:*)\n")
    followed = ("--skill", "log", "--root", skills_root, "--json")
    assert call("permissions", "check-command", "git log", *followed).data["permission"] == "allow"
    refused = call("permissions", "check-command", "git diff", *followed).data
    assert (refused["permission"], refused["level"]) == ("deny", "skill")
    read = call("permissions", "check-command", "src/a.py", "--tool", "file_read", "--json").data
    assert (read["permission"], read["rule"], read["files"]) == ("allow", "allow Read(src/**)", ["src/a.py"])


def test_what_cannot_be_meant_says_what_to_do(call, operator, project):
    assert call("permissions", "check-command").code == 2
    unknown = call("permissions", "check-command", "a.py", "--tool", "file_raed")
    assert (unknown.code, "there is no tool 'file_raed'" in unknown.err) == (2, True)
    assert call("permissions", "list", "git push").code == 2
    operator.write_text('[permissions.commands]\nallow = ["Bash("]\n', "utf-8")
    refused = call("permissions")
    assert refused.code == 1
    assert "permissions.commands.allow" in refused.err
    assert "Bash(git:*)" in refused.err


def test_a_command_in_a_workspace_obeys_the_rules(call, operator, project):
    denied = call("workspace", "exec", "--dir", project, "--", "git log | git -C . push")
    assert (denied.code, denied.out) == (1, "")
    assert "error: denied by the operator's rule `deny Bash(git push:*)`" in denied.err
    assert "hint: do it another way" in denied.err
    (project / "skillyard.txt").write_text("abc")
    asked = call("workspace", "exec", "--dir", project, "--json", "--", "touch a")
    assert (asked.code, asked.data["code"]) == (1, "approval_rejected")
    assert "needs approval by the operator's rules and there is nobody to ask" in asked.data["text"]
    assert not (project / "a").exists()
    assert call("workspace", "exec", "--dir", project, "--", "head -c 2 skillyard.txt").out == "ab"


def test_a_command_in_a_workspace_sees_the_skills_that_need_nobodys_consent(call, operator, project, skills_root, make_skill):
    operator.write_text('[permissions.skills]\n"careful" = "ask"\n"hidden" = "deny"\n', "utf-8")
    for name in ("plain", "careful", "hidden"):
        make_skill(skills_root, name)
    for place in (("--dir", project), ("--id", "trial")):
        seen = call("workspace", "exec", *place, "--root", skills_root, "--", f"ls {skills_root}")
        assert (seen.code, seen.out.split()) == (0, ["plain"]), place
    inside = call("workspace", "exec", "--dir", skills_root / "plain", "--root", skills_root, "--", "ls")
    assert (inside.code, inside.out) == (0, "SKILL.md\n"), "a skill is not shown to a session that works in its folder"
