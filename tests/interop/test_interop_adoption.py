"""Commands, rules and instructions of other programs become skills that `check` finds fine, and nothing is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard import Catalog
from skillyard.document import read_front_matter
from skillyard.errors import InvalidInput
from skillyard.interop import adopt_skills


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def test_commands_of_claude_code_become_skills_with_their_folders_in_the_name(tmp_path: Path) -> None:
    root = _write(tmp_path / "project", {
        ".claude/commands/fix.md": "---\ndescription: Fixes an issue\nargument-hint: '[number]'\n"
        "allowed-tools: Bash(git:*), Read\nmodel: opus\nowner: {team: web}\n---\n"
        "Fix issue #$ARGUMENTS. Status: !`git status`\n",
        ".claude/commands/git/Clean Up.md": "Delete merged branches.\n\nAsk first.\n",
    })  # fmt: skip
    report = adopt_skills("claude-commands", root, tmp_path / "out")
    assert {result.skill_name: result.status for result in report.results} == {"fix": "migrated", "git-clean-up": "migrated"}
    fields = read_front_matter((tmp_path / "out/fix/SKILL.md").read_bytes()).values
    assert fields["allowed-tools"] == "Bash(git:*), Read"
    assert (fields["argument-hint"], fields["model"]) == ("[number]", "opus")
    assert fields["metadata"] == {"from": "claude-command", "owner": {"team": "web"}}
    assert "$ARGUMENTS" in (tmp_path / "out/fix/SKILL.md").read_text()
    assert any("only Claude Code runs" in issue for issue in report.results[0].issues)
    skills = Catalog.discover(roots=[tmp_path / "out"], cache=False)
    assert {skill.name: skill.description for skill in skills}["git-clean-up"] == "Delete merged branches."


def test_rules_of_cursor_become_skills_with_their_globs_in_the_description(tmp_path: Path) -> None:
    root = _write(tmp_path / "shop", {
        ".cursor/rules/react.mdc": "---\ndescription: React conventions\nglobs: *.tsx,src/**/*.ts\n"
        "alwaysApply: false\n---\n- Use hooks\n",
        ".cursor/rules/always.mdc": "---\ndescription: \nglobs: \nalwaysApply: true\n---\n# House\n\nWrite plainly.\n",
        ".cursorrules": "You are careful.\n",
    })  # fmt: skip
    report = adopt_skills("cursor", root, tmp_path / "out")
    assert report.ok
    react = read_front_matter((tmp_path / "out/react/SKILL.md").read_bytes()).texts
    assert react["description"] == "React conventions. Use when working on files that match *.tsx,src/**/*.ts."
    assert react["metadata"] == {"from": "cursor-rule", "globs": "*.tsx,src/**/*.ts", "alwaysApply": "false"}
    always = read_front_matter((tmp_path / "out/always/SKILL.md").read_bytes()).texts
    assert always["description"] == "Write plainly."
    assert (tmp_path / "out/shop-rules/SKILL.md").is_file()


def test_instructions_of_a_project_become_skills_named_after_its_folders(tmp_path: Path) -> None:
    root = _write(tmp_path / "shop", {
        "AGENTS.md": "# Shop\n\nRun `make test` before you commit.\n",
        "web/CLAUDE.md": "Use pnpm.\n",
        "node_modules/x/AGENTS.md": "Not mine.\n",
    })  # fmt: skip
    report = adopt_skills("agents", root, tmp_path / "out")
    assert [result.skill_name for result in report.results] == ["shop-instructions", "shop-web-claude-instructions"]
    text = (tmp_path / "out/shop-instructions/SKILL.md").read_text()
    assert "How to work in shop: Run make test before you commit. Use when changing" in text


def test_twice_is_once_and_something_else_is_never_overwritten(tmp_path: Path) -> None:
    root = _write(tmp_path / "p", {".claude/commands/a.md": "Do a.\n"})
    adopt_skills("claude-commands", root, tmp_path / "out")
    assert adopt_skills("claude-commands", root, tmp_path / "out").results[0].status == "skipped"
    (tmp_path / "out/a/SKILL.md").write_text("mine")
    report = adopt_skills("claude-commands", root, tmp_path / "out")
    assert (report.ok, (tmp_path / "out/a/SKILL.md").read_text()) == (False, "mine")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    root = _write(tmp_path / "p", {"AGENTS.md": "Do it.\n"})
    assert adopt_skills("agents", root, tmp_path / "out", dry_run=True).results[0].status == "migrated"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "empty"), (b"\xff\xfe", "UTF-8"), (b"---\n- a: b\n---\nx\n", "cannot be read"), (b"---\n---\n", "empty")],
)
def test_one_bad_file_keeps_nothing_back(tmp_path: Path, data: bytes, why: str) -> None:
    root = _write(tmp_path / "p", {".claude/commands/good.md": "Do it.\n", ".claude/commands/bad.md": ""})
    (root / ".claude/commands/bad.md").write_bytes(data)
    results = {result.skill_name: result for result in adopt_skills("claude-commands", root, tmp_path / "out").results}
    assert results["good"].status == "migrated"
    assert (results["bad"].status, why in results["bad"].issues[0]) == ("failed", True)


def test_nothing_of_that_form_says_where_it_was_looked_for(tmp_path: Path) -> None:
    for form in ("claude-commands", "cursor", "agents"):
        with pytest.raises(InvalidInput) as refused:
            adopt_skills(form, tmp_path, tmp_path / "out")
        assert refused.value.hint
    with pytest.raises(InvalidInput, match="there is no"):
        adopt_skills("agents", tmp_path / "nowhere", tmp_path / "out")
