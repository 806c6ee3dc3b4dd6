"""The five styles of the documents, byte for byte."""

from __future__ import annotations

import re

import pytest

from skillyard import Catalog
from skillyard.agent_definitions import AgentDraft, write_agent_prompt
from skillyard.catalog import SkillCatalog
from skillyard.cli.program import main as cli
from skillyard.prompt import IndexOptions, append_index, build_index, write_index
from skillyard.tools import SkillTools

AWARENESS = """\
## Available Skills

The following skills are available. Use Bash to read SKILL.md for detailed instructions.

- **my-skill** (user)
  Description: A helpful skill for doing things
  Path: ~/.claude/skills/my-skill/
  Files: SKILL.md, script.py, templates/

- **project-skill** (project)
  Description: Project-specific skill
  Path: /project/.claude/skills/project-skill/
  Files: SKILL.md

"""

TOOL = """\
## Available Skills

Use the `skill` tool to load detailed instructions for any skill.

- **my-skill**: A helpful skill for doing things
- **project-skill**: Project-specific skill
"""

DIRECT = """\
## Available Skills

### Skill: my-skill
**Description:** A helpful skill for doing things

# My Custom Skill

## Usage

1. First, analyze the requirements
2. Then, implement the solution

### Skill: project-skill
**Description:** Project-specific skill

Do as the project says.

"""

XML_INDEX = """\
<available_skills>
  <skill name="pdf" path="/var/lib/semibot/skills/pdf/current/">
    处理 PDF 文件（读取、合并、拆分、表单填写等）
    文件: SKILL.md, REFERENCE.md, FORMS.md, scripts/(8个脚本)
  </skill>
  <skill name="xlsx" path="/var/lib/semibot/skills/xlsx/current/">
    处理 Excel 文件（创建、编辑、公式、图表等）
    文件: SKILL.md, scripts/recalc.py
  </skill>
</available_skills>

当任务匹配某个技能时，先用 read_skill_file 工具读取对应的 SKILL.md 获取完整指南。
如需执行技能中的脚本，使用 bash 工具运行。脚本位于技能目录的 scripts/ 下。"""

SECTION = """\
Claude Code Skills (compatible)
- Skill roots: .claude/skills, .my/skills (relative to project root unless absolute)
- Use tools: skills_list (discover) and skills_load (load SKILL.md, then follow it).
- If a skill defines allowed-tools, follow those constraints when possible.
- Found: 2
  - PDF Miner — Extract text & metadata from PDFs
  - xlsx — Spreadsheets"""


@pytest.fixture
def two(skill):
    return [
        skill(
            "my-skill",
            "A helpful skill for doing things",
            directory="~/.claude/skills/my-skill",
            file_names=("script.py", "templates/template.txt"),
            body="\n# My Custom Skill\n\n## Usage\n\n1. First, analyze the requirements\n2. Then, implement the solution\n",
        ),
        skill(
            "project-skill",
            "Project-specific skill",
            source="project",
            directory="/project/.claude/skills/project-skill",
            body="Do as the project says.",
        ),
    ]


@pytest.mark.row("001-11", "C-13")
def test_awareness_is_exactly_the_example_of_its_document(two):
    assert build_index(two, IndexOptions(style="awareness")).text == AWARENESS


@pytest.mark.row("001-13", "C-13")
def test_tool_is_exactly_its_document(two):
    assert build_index(two, IndexOptions(style="tool")).text == TOOL


@pytest.mark.row("001-12", "C-13")
def test_direct_is_exactly_its_document(two):
    text = build_index(two, IndexOptions(style="direct")).text
    assert re.sub(r'</?skill_text nonce="[0-9a-f]{16}">\n', "", text) == DIRECT  # the document has no fences
    assert text.count("<skill_text") == text.count("</skill_text") == 2
    assert build_index(two, IndexOptions(style="direct")).text == text  # so that prompt caches hold


@pytest.mark.row("001-12")
def test_direct_cuts_instructions_at_a_thousand_characters(skill):
    exactly, over = skill("a", body="x" * 1000), skill("b", body="y" * 1001)
    text = build_index([exactly, over], IndexOptions(style="direct")).text
    assert "x" * 1000 + "\n</skill_text" in text
    assert "y" * 1000 + "...\n</skill_text" in text
    assert "y" * 1001 not in text


def test_instructions_that_cannot_be_read_do_not_spoil_the_index(skill):
    class Gone(skill):
        def document(self):
            raise FileNotFoundError

    text = build_index([Gone("a", "Does a."), skill("b")], IndexOptions(style="direct")).text
    assert "**Description:** Does a." in text
    assert "1. Do it." in text


@pytest.mark.row("003-8", "C-13")
def test_xml_index_is_exactly_the_example_of_its_document(skill, inventory):
    scripts = tuple(f"scripts/check_{number}.py" for number in range(8))
    skills = [
        skill(
            "pdf",
            "处理 PDF 文件（读取、合并、拆分、表单填写等）",
            directory="/var/lib/semibot/skills/pdf/current",
            classes=inventory(script_files=scripts, reference_files=("REFERENCE.md", "FORMS.md")),
        ),
        skill(
            "xlsx",
            "处理 Excel 文件（创建、编辑、公式、图表等）",
            directory="/var/lib/semibot/skills/xlsx/current/",
            classes=inventory(script_files=("scripts/recalc.py",)),
        ),
    ]
    index = build_index(skills, IndexOptions(style="xml-index", workspace=True))
    assert index.text == XML_INDEX
    assert index.kept == ("user:pdf", "user:xlsx")
    without = build_index(skills, IndexOptions(style="xml-index"))
    assert without.text == XML_INDEX.replace("使用 bash 工具", "使用 run_skill 工具")


@pytest.mark.row("004-5", "004-12", "C-13", "D-36")
def test_section_is_exactly_its_document(skill):
    roots = ["/srv/.claude/skills", ".my/skills"]
    skills = [
        skill("PDF Miner", "Extract text & metadata from PDFs", given_id="project:pdf-miner"),
        skill("xlsx", "Spreadsheets"),
    ]
    assert build_index(skills, IndexOptions(style="section", roots=roots, project_root="/srv")).text == SECTION


@pytest.mark.row("004-5", "D-36")
def test_section_names_only_roots_that_were_scanned(tmp_path):
    (tmp_path / "here/notes").mkdir(parents=True)
    (tmp_path / "here/notes/SKILL.md").write_text("---\nname: notes\ndescription: Takes notes.\n---\n")
    catalog = SkillCatalog.discover(roots=[tmp_path / "here", tmp_path / "elsewhere"], cwd=tmp_path, cache=False)
    assert "- Skill roots: here (relative" in write_index(catalog, IndexOptions(style="section")).text


@pytest.mark.row("004-12")
def test_section_lists_forty_skills_and_counts_the_others(skill):
    skills = [skill(f"skill-{number:02}", "Does it.") for number in range(45)]
    index = build_index(skills, IndexOptions(style="section", roots=[".claude/skills"], budget=None))
    lines = index.text.split("\n")
    assert lines[4] == "- Found: 45"
    assert lines[44] == "  - skill-39 — Does it."
    assert lines[45] == "  - …and 5 more"
    assert "search_skills" in lines[46]
    assert [omission.reason for omission in index.omitted] == ["style section lists at most 40 skills"] * 5
    assert index.more == 5


@pytest.mark.row("004-12")
def test_a_named_skill_is_among_the_forty(skill):
    skills = [skill(f"skill-{number:02}") for number in range(45)]
    index = build_index(skills, IndexOptions(style="section", named=["skill-44"], budget=None))
    assert "  - skill-44 — " in index.text
    assert "user:skill-39" in {omission.id for omission in index.omitted}


@pytest.mark.row("004-12")
def test_section_can_say_that_nothing_was_found():
    text = build_index([], IndexOptions(style="section", roots=[".claude/skills"], show_empty=True)).text
    assert text.endswith("- Found: (none)")
    assert build_index([], IndexOptions(style="section", show_empty=True, budget=3)).text == ""


@pytest.mark.row("004-12")
def test_section_without_a_description_shows_the_name_alone(skill):
    assert build_index([skill("bare", "")], IndexOptions(style="section")).text.endswith("\n  - bare")


@pytest.mark.row("C-21")
@pytest.mark.parametrize(
    "settings",
    [("ship.json", '{"skills": {"promptSection": false}}'), ("skillyard.toml", "[skills]\nprompt-section = false\n")],
)
def test_without_a_prompt_section_no_prompt_has_an_index_and_the_tools_still_find_skills(
    tmp_path, monkeypatch, capsys, settings
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / ".claude/skills/greeter"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greeter\ndescription: Greets. Use when someone arrives.\n---\nHello.\n")
    monkeypatch.chdir(tmp_path)
    shown = Catalog.discover()
    assert "greeter" in shown.prompt().text
    (tmp_path / settings[0]).write_text(settings[1])
    catalog = Catalog.discover()
    tools = SkillTools(catalog)
    agent = AgentDraft("helper", system_prompt="Help.")
    assert (catalog.prompt().text, tools.prompt().text, tools.prompt(session="s").text) == ("", "", "")
    assert catalog.prompt(request="greet someone", pinned=["greeter"]).text == ""
    assert write_agent_prompt(agent, catalog).text == "Help."
    assert {omission.reason.split(":")[0] for omission in catalog.prompt().omitted} == {
        "the configuration says prompt-section = false"
    }
    assert [skill.name for skill in catalog] == ["greeter"]
    assert "greeter" in str(tools.definitions("openai"))
    assert cli(["prompt"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.row("004-13")
def test_the_index_goes_after_the_prompt_and_can_be_switched_off(two):
    index = build_index(two, IndexOptions(style="tool"))
    assert append_index("You are helpful.\n", index) == f"You are helpful.\n\n---\n\n{TOOL}"
    assert append_index("You are helpful.\n", index, enabled=False) == "You are helpful.\n"
    assert append_index("You are helpful.", build_index([])) == "You are helpful."
    assert append_index("", index) == TOOL


@pytest.mark.row("001-11")
@pytest.mark.parametrize("style", ["awareness", "direct", "tool", "xml-index", "section", "compact"])
def test_no_skills_give_no_text(style):
    index = build_index([], IndexOptions(style=style))
    assert (index.text, index.tokens, index.kept, index.omitted) == ("", 0, (), ())
