"""Skills that are picked by a request: by intent, and before a model is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, InvalidInput, SkillNotFound, SkillTools
from skillyard.errors import NotExecutable
from skillyard.permissions import ApprovalAnswer, ApprovalRequest

ECHO = "def execute(p, context):\n    return {'got': p, 'who': context.get('userId')}\n"


@pytest.fixture
def skill(skills_root: Path, make_skill: Any) -> Any:
    """Write one skill with a script; further fields as front matter."""

    def make(name: str, description: str, script: str | None = ECHO, fields: str = "") -> None:
        files = {} if script is None else {"scripts/execute.py": script}
        make_skill(skills_root, name, front_matter=f"name: {name}\ndescription: {description}\n{fields}", files=files)

    return make


@pytest.fixture
def catalog(skills_root: Path) -> Any:
    return lambda: Catalog.discover(roots=[skills_root], cache=False)


@pytest.mark.row("D-15")
async def test_an_intent_runs_the_skill_that_fits_and_says_why(skill: Any, catalog: Any) -> None:
    skill("invoices", "Books invoices into the ledger.", fields="keywords: [invoice]\ntriggers: {intents: [book_invoices]}")
    skill("weather", "Tells the weather in a city.")
    done = await catalog().execute_by_intent("please book invoices", {"n": 1}, context={"userId": "ada"})
    assert (done.skill.name, done.run.output, dict(done.skipped)) == ("invoices", {"got": {"n": 1}, "who": "ada"}, {})
    assert done.confidence >= 0.9
    assert "phrase:book_invoices" in done.matched
    metadata = done.to_dict()["metadata"]
    assert (metadata["matchedSkill"], metadata["confidence"]) == ("invoices", done.confidence)
    assert metadata["matchedTriggers"] == list(done.matched)


@pytest.mark.row("D-15")
async def test_an_intent_that_fits_nothing_runs_nothing(skill: Any, catalog: Any) -> None:
    skill("invoices", "Books invoices into the ledger.")
    for intent in ("sing a lullaby", "", "x"):
        with pytest.raises(SkillNotFound):
            await catalog().execute_by_intent(intent)
    for least in (0, 0.1, 1.5):
        with pytest.raises(InvalidInput):
            await catalog().execute_by_intent("book invoices", min_confidence=least)


@pytest.mark.row("D-15", "D-17")
async def test_the_next_match_is_tried_only_when_nothing_of_a_better_one_ran(skill: Any, catalog: Any) -> None:
    skill("invoice-guide", "Invoices invoices invoices, booking invoices.", None)
    skill("invoice-checked", "Invoices and booking invoices.", fields="input_schema: {required: [n]}")
    skill("invoice-service", "Invoices and booking of invoices.", None, "type: service")
    skill("invoice-zz-ledger", "Invoices and booking of invoices in a ledger.")
    done = await catalog().execute_by_intent("booking invoices")
    assert done.skill.name == "invoice-zz-ledger"
    assert sorted(done.skipped) == ["config:invoice-checked", "config:invoice-guide", "config:invoice-service"]
    with pytest.raises(NotExecutable) as caught:
        await catalog().execute_by_intent("booking invoices", limit=1)
    assert len(caught.value.details["skipped"]) == 1  # type: ignore[arg-type] # a mapping


@pytest.mark.row("D-17")
async def test_a_match_that_ran_and_failed_is_the_answer(skill: Any, catalog: Any) -> None:
    skill("invoices", "Books invoices.", "def execute():\n    raise SystemExit(4)\n")
    skill("ledger", "Keeps invoices and other things in a ledger.")
    done = await catalog().execute_by_intent("books invoices")
    assert (done.skill.name, done.run.status) == ("invoices", "error")


async def test_a_skill_that_must_be_asked_about_is_passed_over(
    skill: Any, skills_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skill("invoices", "Books invoices.")
    (tmp_path / ".git").mkdir()
    (tmp_path / "skillyard.toml").write_text('[permissions.skills]\n"inv*" = "ask"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotExecutable, match="a rule requires approval first"):
        await Catalog.discover(roots=[skills_root]).execute_by_intent("books invoices")


@pytest.mark.row("000-11")
async def test_preprocessors_that_fit_run_before_the_model_and_no_others(skill: Any, catalog: Any) -> None:
    kind = "type: preprocessor"
    skill("glossary", "Explains ledger words in a request.", fields=kind)
    skill("dates", "Resolves dates.", "def execute(p):\n    return p['text']\n", f"{kind}\n" + (
        "input_schema: {properties: {text: {type: string}, n: {}}, required: [text]}"))  # fmt: skip
    skill("ledger", "Explains a ledger and dates.")
    skill("broken", "Breaks ledger words.", "def execute():\n    raise SystemExit(1)\n", kind)
    skill("empty", "Has no ledger script.", None, f"{kind}\ndisable-model-invocation: true")
    found = await catalog().preprocess("which dates are in the ledger", context={"userId": "ada"})
    runs = {item.skill.name: item.run for item in found}
    assert runs["glossary"].output == {"got": {"request": "which dates are in the ledger"}, "who": "ada"}
    assert runs["dates"].output == "which dates are in the ledger"
    assert (runs["broken"].status, runs["empty"].status) == ("error", "unavailable")
    assert runs["empty"].error and runs["empty"].error.code == "not_executable"  # narrows
    assert len(runs) == 4
    assert [item.confidence for item in found] == sorted((item.confidence for item in found), reverse=True)
    assert all(item.matched for item in found)
    assert await catalog().preprocess("sing") == []


@pytest.mark.row("000-11", "001-18", "001-19")
async def test_preprocessors_pass_the_same_gate_as_every_tool(skill: Any, catalog: Any) -> None:
    for name in ("open", "asked", "secret"):
        skill(name, "Explains ledger words.", fields="type: preprocessor")

    class Approver:
        answer: ApprovalAnswer = ApprovalAnswer("reject")

        async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
            return self.answer

    approver = Approver()
    tools = SkillTools(catalog(), permissions={"secret": "deny", "asked": "ask"}, approver=approver)
    found = {item.skill.name: item.run for item in await tools.preprocess("ledger words")}
    assert {name: run.status for name, run in found.items()} == {"open": "ok", "asked": "unavailable"}
    assert found["asked"].error and found["asked"].error.code == "approval_rejected"  # narrows
    approver.answer = ApprovalAnswer("session")
    assert {item.skill.name: item.run.status for item in await tools.preprocess("ledger words")}["asked"] == "ok"
    assert await SkillTools(catalog(), run_skills=False).preprocess("ledger words") == []


@pytest.mark.row("000-11")
async def test_an_internal_skill_is_never_shown_to_a_model_and_runs_for_the_host(skill: Any, catalog: Any) -> None:
    abp = "protocol: abp\nabp: {tools: [{name: secretTool}]}"
    skill("housekeeping", "Cleans the house.", fields=f"type: internal\n{abp}")
    skill("visible", "Cleans windows.")
    found = catalog()
    tools = SkillTools(found)
    shown = [
        found.prompt().text,
        tools.prompt().text,
        str(tools.definitions(abp_tools=True)),
        tools.text_prompt(),
        (await tools.call("skills_list")).text,
        str([match.skill.name for match in found.search("housekeeping cleans the house")]),
        (await tools.answer_text('[[ABP_TOOL:x]]{"action": "a", "parameters": {}}[[END_ABP_TOOL]]')).text,
    ]
    assert [text for text in shown if "housekeeping" in text or "secretTool" in text] == []
    for name in ("housekeeping", "secretTool"):
        text = f'[[ABP_TOOL:{name}]]{{"action": "a", "parameters": {{}}}}[[END_ABP_TOOL]]'
        assert not (await tools.answer_text(text)).results[0].ok
    assert (await tools.call("run_skill", {"skill": "housekeeping"})).code == "skill_unusable"
    assert (await tools.call("secretTool")).code == "unknown_tool"
    with pytest.raises(SkillNotFound):
        await found.execute_by_intent("housekeeping")
    assert (await found.run("housekeeping", {"a": 1})).output == {"got": {"a": 1}, "who": None}
