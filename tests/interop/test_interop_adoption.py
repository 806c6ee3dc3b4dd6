"""Commands, rules and instructions of other programs become skills that `check` finds fine, and nothing is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard import Catalog
from skillyard.document import read_front_matter
from skillyard.errors import InvalidInput
from skillyard.interop import FOREIGN_FORMATS, ForeignFormat, MigrationResult, adopt_skills


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
    assert fields["metadata"] == {
        "from": "claude-command", "source": ".claude/commands/fix.md", "owner": {"team": "web"}
    }  # fmt: skip
    assert any("owner" in issue and "metadata" in issue for issue in report.results[0].issues)
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
    assert react["metadata"] == {
        "from": "cursor-rule", "source": ".cursor/rules/react.mdc", "globs": "*.tsx,src/**/*.ts", "alwaysApply": "false"
    }  # fmt: skip
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
    for form in FOREIGN_FORMATS:
        with pytest.raises(InvalidInput) as refused:
            adopt_skills(form, tmp_path, tmp_path / "out")
        assert refused.value.hint
    with pytest.raises(InvalidInput, match="there is no"):
        adopt_skills("agents", tmp_path / "nowhere", tmp_path / "out")


def _one(tmp_path: Path, form: ForeignFormat, name: str, text: str) -> tuple[MigrationResult, dict[str, object], str]:
    """Adopt one file: the result, the fields written for it, and the whole text."""
    root = _write(tmp_path / "p", {name: text})
    (result,) = adopt_skills(form, root, tmp_path / "out").results
    written = (tmp_path / "out" / result.skill_name / "SKILL.md").read_bytes()
    return result, dict(read_front_matter(written).values), written.decode()


def test_only_the_front_matter_of_a_rule_is_mended(tmp_path: Path) -> None:
    body = "```yaml\nglobs: *.ts\n  - *.py\n```\n"
    _, fields, text = _one(tmp_path, "cursor", ".cursor/rules/a.mdc", f"---\nglobs: {{a,b}}.ts\n---\n{body}")
    assert fields["metadata"] == {"from": "cursor-rule", "source": ".cursor/rules/a.mdc", "globs": "{a,b}.ts"}
    assert text.endswith(body)


@pytest.mark.parametrize(
    "globs", ["globs:\n  - *.py\n  - '*.js'", "globs: [ *.py , *.js ]", "globs: [*.py, '*.js']", "globs: ['*.py', \"*.js\"]"]
)
def test_globs_in_a_list_are_a_list(tmp_path: Path, globs: str) -> None:
    _, fields, _ = _one(tmp_path, "cursor", ".cursor/rules/a.mdc", f"---\ndescription: A\n{globs}\n---\nx\n")
    assert fields["metadata"] == {"from": "cursor-rule", "source": ".cursor/rules/a.mdc", "globs": ["*.py", "*.js"]}
    assert fields["description"] == "A. Use when working on files that match *.py, *.js."


@pytest.mark.parametrize("hint", ["[number]", "[file] [line]", "[file, line]", "<pr> | [x]"])
def test_a_hint_in_brackets_stays_the_text_that_it_is(tmp_path: Path, hint: str) -> None:
    _, fields, _ = _one(tmp_path, "claude-commands", ".claude/commands/c.md", f"---\nargument-hint: {hint}\n---\nx\n")
    assert fields["argument-hint"] == hint


def test_a_description_that_is_too_long_is_kept_in_full(tmp_path: Path) -> None:
    words = "long " * 400 + "end"
    result, fields, _ = _one(tmp_path, "claude-commands", ".claude/commands/c.md", f"---\ndescription: {words}\n---\nx\n")
    assert len(str(fields["description"])) <= 1024
    assert fields["metadata"] == {"from": "claude-command", "source": ".claude/commands/c.md", "description": words}
    assert any("description" in issue for issue in result.issues)


def test_what_only_claude_code_does_is_reported(tmp_path: Path) -> None:
    text = "Fix $1 as @src/a.ts does.\n\n```sh\nawk '{print $2}' @types/x\n```\n"
    result, _, written = _one(tmp_path, "claude-commands", ".claude/commands/c.md", text)
    assert text in written
    assert sum("$1" in issue for issue in result.issues) == 1
    assert sum("@src/a.ts" in issue for issue in result.issues) == 1
    plain, _, _ = _one(
        tmp_path / "two", "claude-commands", ".claude/commands/c.md", "```sh\nawk '{print $2}' @types/x\n```\nx\n"
    )
    assert plain.issues == ()


def test_a_name_outside_ascii_can_be_found_again(tmp_path: Path) -> None:
    _, fields, _ = _one(tmp_path, "claude-commands", ".claude/commands/修复.md", "修复 $ARGUMENTS\n")
    assert fields["description"] == "修复 $ARGUMENTS"
    assert fields["metadata"] == {"from": "claude-command", "source": ".claude/commands/修复.md"}


def test_the_folders_of_a_project_have_rules_and_commands_of_their_own(tmp_path: Path) -> None:
    root = _write(tmp_path / "shop", {
        ".cursor/rules/a.mdc": "A\n", "web/.cursor/rules/a.mdc": "Web\n", "web/.cursorrules": "Older\n",
        ".claude/commands/b.md": "B\n", "web/.claude/commands/b.md": "Web\n", "node_modules/x/.cursor/rules/n.mdc": "No\n",
    })  # fmt: skip
    rules = adopt_skills("cursor", root, tmp_path / "rules")
    assert [result.skill_name for result in rules.results] == ["a", "web-a", "web-rules"]
    commands = adopt_skills("claude-commands", root, tmp_path / "commands")
    assert [result.skill_name for result in commands.results] == ["b", "web-b"]


def test_a_link_to_instructions_that_are_read_anyway_is_skipped_and_no_link_leads_out(tmp_path: Path) -> None:
    root = _write(tmp_path / "shop", {"AGENTS.md": "Be kind.\n"})
    (tmp_path / "secret").write_text("secret\n")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    (root / "GEMINI.md").symlink_to(tmp_path / "secret")
    results = {result.skill_name: result for result in adopt_skills("agents", root, tmp_path / "out").results}
    linked = results["shop-claude-instructions"]
    assert (linked.status, linked.issues) == ("skipped", ("CLAUDE.md is a link to AGENTS.md",))
    assert results["shop-instructions"].status == "migrated"
    assert results["shop-gemini-instructions"].issues == ("GEMINI.md is a link that leads elsewhere",)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["shop-instructions"]
    assert adopt_skills("agents", root / "CLAUDE.md", tmp_path / "named").ok


def test_two_files_of_one_name_are_both_named(tmp_path: Path) -> None:
    root = _write(tmp_path / "p", {".claude/commands/a/b.md": "One\n", ".claude/commands/a-b.md": "Two\n"})
    migrated, failed = adopt_skills("claude-commands", root, tmp_path / "out").results
    assert (migrated.status, failed.status) == ("migrated", "failed")
    assert ".claude/commands/a-b.md" in failed.issues[0]
    assert ".claude/commands/a/b.md" in failed.issues[0]


def test_rules_in_the_body_are_no_front_matter(tmp_path: Path) -> None:
    text = "---\n---\nglobs: *.ts\n---\nBe kind.\n"
    _, fields, written = _one(tmp_path, "cursor", ".cursor/rules/a.mdc", text)
    assert written.endswith("globs: *.ts\n---\nBe kind.\n")
    assert fields["metadata"] == {"from": "cursor-rule", "source": ".cursor/rules/a.mdc"}


@given(
    hint=st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20),
    body=st.text(st.characters(codec="utf-8", exclude_categories=("C",), include_characters="\n"), max_size=80),
)
def test_nothing_of_a_command_is_lost(tmp_path_factory: pytest.TempPathFactory, hint: str, body: str) -> None:
    folder = tmp_path_factory.mktemp("one")
    text = f"Do it.\n\n{body}".strip("\n") + "\n"
    quoted = hint.replace("'", "''")
    _, fields, written = _one(
        folder, "claude-commands", ".claude/commands/c.md", f"---\nargument-hint: '{quoted}'\n---\n{text}"
    )
    assert fields["argument-hint"] == hint
    assert written.endswith(text)


@given(globs=st.lists(st.text("*{},a./'", min_size=1, max_size=6), min_size=1, max_size=3))
def test_no_letter_of_globs_in_brackets_is_lost(tmp_path_factory: pytest.TempPathFactory, globs: list[str]) -> None:
    folder, written = tmp_path_factory.mktemp("one"), ",".join(globs)
    result, fields, _ = _one(folder, "cursor", ".cursor/rules/a.mdc", f"---\ndescription: A\nglobs: [x{written}]\n---\nx\n")
    kept = fields["metadata"]["globs"]  # type: ignore[index]
    letters = "".join(kept) if isinstance(kept, list) else kept
    punctuation = str.maketrans("", "", ",'")  # quotes around a word are YAML's, commas part the words
    assert letters.translate(punctuation) == f"x{written}".translate(punctuation)
    assert result.status == "migrated"


def test_the_documents_of_a_project_are_no_commands(tmp_path: Path) -> None:
    root = _write(tmp_path / "p", {"README.md": "Read me.\n", "docs/a.md": "A\n"})
    with pytest.raises(InvalidInput):
        adopt_skills("claude-commands", root, tmp_path / "out")
    plugin = _write(tmp_path / "plugin", {"README.md": "Read me.\n", "commands/go.md": "Go.\n"})
    for place in (plugin, plugin / "commands", plugin / "commands/go.md"):
        assert [result.skill_name for result in adopt_skills("claude-commands", place, tmp_path / "out").results] == ["go"]
    inner = _write(tmp_path / "q", {".claude/commands/git/tidy.md": "Tidy.\n"}) / ".claude/commands/git"
    assert adopt_skills("claude-commands", inner, tmp_path / "out").results[0].skill_name == "tidy"
