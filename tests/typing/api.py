"""The public names as a typed program uses them: mypy reads this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

from skillyard import Catalog, Index, Match, Run, Skill, SkillTools, ToolResult
from skillyard.execution import AbpText, Preprocessed, parse_abp_calls
from skillyard.tools import TextAnswer


async def use(catalog: Catalog) -> None:
    """What a host does, with the type of everything it gets."""
    assert_type(Catalog.discover(roots=["skills"]), Catalog)
    assert_type(catalog.all(), tuple[Skill, ...])
    assert_type([skill.name for skill in catalog], list[str])
    assert_type(catalog.prompt(budget=2000), Index)
    assert_type(catalog.search("fill in a form"), list[Match])
    assert_type(await catalog.run("text-statistics", {"text": "a"}), Run)
    tools = SkillTools(catalog, permissions={"internal-*": "deny", "deploy": "ask"})
    assert_type(await tools.call("skill", {"skill": "pdf"}), ToolResult)
    assert_type(await tools.answer_text("It is sunny."), TextAnswer)
    assert_type(parse_abp_calls("It is sunny."), AbpText)
    assert_type((await catalog.execute_by_intent("count words")).run, Run)
    assert_type(await catalog.preprocess("count words"), list[Preprocessed])
