"""The catalog as a program uses it: listed, searched and run in one object."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skillyard
from skillyard import Catalog, InvalidInput, PermissionDenied, SkillNotFound, SkillTools, SkillUnusable

MakeSkill = Callable[..., Path]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the skills `pdf`, `deploy` and `internal-pay`, as the working folder."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def stocked(project: Path, make_skill: MakeSkill) -> Path:
    for name in ("pdf", "deploy", "internal-pay"):
        make_skill(project / ".claude/skills", name, description=f"The {name} skill. Use when {name} is asked for.")
    return project


@pytest.mark.row("001-19", "001-21", "001-23")
async def test_the_ten_lines_everyone_begins_with(stocked: Path) -> None:
    catalog = Catalog.discover()
    listed = [(skill.id, skill.status, skill.directory, skill.diagnostics) for skill in catalog.all()]
    assert [entry[0] for entry in listed] == ["project:deploy", "project:internal-pay", "project:pdf"]
    tools = SkillTools(catalog, permissions={"internal-*": "deny", "deploy": "ask"})
    system = "You help." + catalog.prompt(budget=2000).text
    assert "pdf" in system
    openai_tools = tools.definitions("openai")
    assert "internal-pay" not in str(openai_tools)
    result = await tools.call("read_skill_file", {"skill": "pdf", "file_path": "SKILL.md"})
    assert result.ok
    assert "name: pdf" in result.text


def test_rules_of_the_configuration_hold_from_the_start(stocked: Path) -> None:
    (stocked / "skillyard.toml").write_text('[permissions.skills]\n"internal-*" = "deny"\n')
    catalog = Catalog.discover()
    assert {skill.name: skill.status for skill in catalog.all()}["internal-pay"] == "denied"
    assert "internal-pay" not in catalog.prompt().text
    assert "internal-pay" not in [match.skill.name for match in catalog.search("internal-pay")]


def test_rules_can_be_laid_over_and_survive_a_refresh(stocked: Path, make_skill: MakeSkill) -> None:
    catalog = Catalog.discover().with_permissions({"internal-*": "deny"})
    assert isinstance(catalog, Catalog)
    make_skill(stocked / ".claude/skills", "internal-new")
    assert catalog.refresh().added == ("project:internal-new",)
    assert [skill.name for skill in catalog] == ["deploy", "pdf"]
    assert "internal" not in catalog.prompt().text


def test_without_a_request_the_index_keeps_the_catalogs_order(stocked: Path) -> None:
    index = Catalog.discover().prompt()
    assert index.kept == ("project:deploy", "project:internal-pay", "project:pdf")
    assert Catalog.discover().prompt() == index


def test_with_a_request_the_fitting_skills_are_described_whole_within_a_small_budget(
    skills_root: Path, make_skill: MakeSkill
) -> None:
    for number in range(300):
        make_skill(
            skills_root, f"filler-{number:03}", description=f"Does chore number {number} of a long list of other chores."
        )
    wanted = "Turns invoices into ledger bookings. Use when someone has invoices to book."
    make_skill(skills_root, "zz-bookkeeping", description=wanted)
    catalog = Catalog.discover(roots=[skills_root])
    assert "zz-bookkeeping" not in catalog.prompt(400).text
    index = catalog.prompt(400, request="please book these invoices into the ledger")
    assert index.tokens <= 400
    assert wanted in index.text
    assert "config:zz-bookkeeping" in index.kept


@pytest.mark.parametrize("request_text", ["use $tiny", "run /tiny now", "the tiny skill, please", "with `tiny`"])
def test_a_skill_that_a_request_names_is_always_described(skills_root: Path, make_skill: MakeSkill, request_text: str) -> None:
    for number in range(300):
        make_skill(skills_root, f"filler-{number:03}", description=f"Please use, run now and with skill number {number}.")
    make_skill(skills_root, "tiny", description="Something else entirely.")
    assert "config:tiny" in Catalog.discover(roots=[skills_root]).prompt(300, request=request_text).kept


def test_named_and_pinned_skills_come_before_others(skills_root: Path, make_skill: MakeSkill) -> None:
    for number in range(100):
        make_skill(skills_root, f"filler-{number:03}")
    catalog = Catalog.discover(roots=[skills_root])
    index = catalog.prompt(200, named=["filler-098"], pinned=["filler-099"])
    reported = {*index.kept, *index.shortened}
    assert {"config:filler-098", "config:filler-099"} <= reported


def test_no_skills_make_no_text(skills_root: Path) -> None:
    assert Catalog.discover(roots=[skills_root]).prompt().text == ""


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(InvalidInput, match="poem"):
        Catalog.discover(roots=[EXAMPLES]).prompt(style="poem")  # type: ignore[arg-type]


async def test_a_script_runs_by_name_with_its_context() -> None:
    catalog = Catalog.discover(roots=[EXAMPLES])
    run = await catalog.run("preference-recorder", {"preference": "likes tea"}, context={"userId": "ada"})
    assert run.ok
    assert [write.owner_id for write in run.memory_writes] == ["ada"]


async def test_a_run_may_be_given_less_time_but_never_more_than_configured(
    project: Path, skills_root: Path, make_skill: MakeSkill
) -> None:
    (project / "skillyard.toml").write_text("[sandbox]\ntimeout-ms = 400\n")
    make_skill(skills_root, "slow", files={"scripts/execute.py": "import time\ntime.sleep(60)\n"})
    catalog = Catalog.discover(roots=[skills_root])
    for asked, given in ((200, 200), (60_000, 400), (None, 400)):
        run = await catalog.run("slow", timeout_ms=asked)
        assert run.status == "timeout"
        assert {limit.value for limit in run.limits if limit.name == "timeout_ms"} == {given}


async def test_only_usable_skills_run(stocked: Path) -> None:
    catalog = Catalog.discover().with_permissions({"deploy": "deny"})
    with pytest.raises(PermissionDenied):
        await catalog.run("deploy")
    catalog.disable("pdf")
    with pytest.raises(SkillUnusable, match="disabled"):
        await catalog.run("pdf")
    with pytest.raises(SkillNotFound):
        await catalog.run("nothing-like-it")


@pytest.mark.parametrize("name", skillyard.__all__)
def test_every_public_name_is_its_rooms_own(name: str) -> None:
    value: Any = getattr(skillyard, name)
    assert value is not None
    assert name in dir(skillyard)
    assert name == "__version__" or value.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Catalogue"):
        skillyard.Catalogue  # noqa: B018


def test_importing_the_package_imports_no_room() -> None:
    script = "import sys, skillyard; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("skillyard")} == {
        "skillyard",
        "skillyard._version",
        "skillyard.lazy_exports",
    }


def test_search_sees_a_skill_that_appeared_since_the_last_request(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "pdf", description="Merge PDF files.")
    catalog = Catalog.discover(roots=[skills_root])
    assert [match.skill.name for match in catalog.search("merge PDF files")] == ["pdf"]
    assert catalog.search("knit a jumper") == []
    make_skill(skills_root, "knitting", description="Knit jumpers and socks.")
    catalog.refresh()
    assert [match.skill.name for match in catalog.search("knit a jumper")] == ["knitting"]


@pytest.mark.row("001-23", "D-28")
async def test_a_catalog_of_another_folder_uses_the_same_records_and_lasts_longer(make_skill: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        script = {"scripts/execute.py": f"def execute(p):\n    return {name!r}\n"}
        make_skill(tmp_path / name / ".claude/skills", f"say-{name}", files=script)
    one = Catalog.discover(cwd=tmp_path / "one", cache=False)
    two = one.in_folder(tmp_path / "two")
    assert [skill.name for skill in two if skill.source == "project"] == ["say-two"]
    assert two.records() is one.records()
    del one
    gc.collect()
    assert (await two.run("say-two")).output == "two"
    assert [run.skill_name for run in two.records().journal.list()] == ["say-two"]
