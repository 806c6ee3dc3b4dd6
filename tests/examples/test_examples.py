"""The example skills: all list, all pass their profile, and each script answers as its own instructions show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, check_document

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"
# The documents' own examples carry the richer fields; the others keep to the Agent Skills specification.
PROFILES = {
    "changelog-writer": "spec",
    "csv-summary": "spec",
    "data-processor": "full",
    "pdf-miner": "standard",
    "preference-recorder": "full",
    "text-statistics": "full",
    "user-profile-updater": "full",
    "weather-query": "full",
    "weather-query-abp": "full",
}
RUNNABLE = ("csv-summary", "data-processor", "preference-recorder", "text-statistics", "user-profile-updater")
_JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.discover(roots=[EXAMPLES], cache=False)


def test_all_examples_list_and_are_usable(catalog: Catalog) -> None:
    assert sorted(Path(skill.directory).name for skill in catalog) == sorted(PROFILES)


@pytest.mark.row("C-3", "000-26")
@pytest.mark.parametrize(("name", "profile"), PROFILES.items())
def test_an_example_has_no_errors_under_its_profile(catalog: Catalog, name: str, profile: Any) -> None:
    skill = next(skill for skill in catalog if Path(skill.directory).name == name)
    files = [file.name for file in skill.files()]
    found = check_document(Path(skill.path).read_bytes(), directory_name=name, profile=profile, files=files)
    assert [diagnostic for diagnostic in found if diagnostic.severity == "error"] == []


@pytest.mark.row("004-3")
def test_the_name_of_the_fourth_document_is_a_deviation_and_only_that(catalog: Catalog) -> None:
    skill = catalog.get("PDF Miner")
    assert (skill.slug, skill.allowed_tools) == ("pdf-miner", ("exec_shell", "read_file"))
    found = check_document(Path(skill.path).read_bytes(), directory_name="pdf-miner", profile="spec")
    assert {diagnostic.line for diagnostic in found if diagnostic.severity == "error"} <= {2, 4, 5, 6}


@pytest.mark.row("000-19", "000-22")
def test_the_weather_skills_keep_what_the_document_declares(catalog: Catalog) -> None:
    plain, declared = (catalog.get(name).document().metadata for name in ("weather-query", "weather-query-abp"))
    assert (plain.kind, plain.protocol, plain.cacheable, plain.ttl) == ("service", "vcp", True, 300)
    assert declared.protocol == "abp"
    assert declared.abp is not None
    assert declared.abp.kind == "query"
    assert [tool["name"] for tool in declared.abp.tools] == ["getWeather"]


@pytest.mark.row("000-36", "000-37")
@pytest.mark.parametrize("name", RUNNABLE)
async def test_a_script_answers_as_its_instructions_show(catalog: Catalog, name: str) -> None:
    given, shown = _example_of(catalog.get(name).document().body)
    run = await catalog.run(name, given, context={"userId": "ada"})
    assert run.error is None, run.stderr
    assert _holds(run.output, shown)


def _example_of(body: str) -> tuple[Any, Any]:
    """The first two JSON blocks of the instructions: input and output."""
    given, shown = (json.loads(block) for block in _JSON.findall(body)[:2])
    return given, shown


def _holds(value: Any, shown: Any) -> bool:
    """Whether `value` is `shown`; an object may have more fields than are shown."""
    if isinstance(shown, dict):
        return all(key in value and _holds(value[key], inner) for key, inner in shown.items())
    return bool(value == shown)


@pytest.mark.row("000-35", "000-45")
async def test_the_data_processor_traces_its_three_steps(catalog: Catalog) -> None:
    run = await catalog.run("data-processor", {"data": [{"n": "1"}, {"n": "1"}, 7]})
    assert [step.step_id for step in run.steps] == ["validate", "clean", "analyze"]
    assert [step.output for step in run.steps[:2]] == [{"count": 2, "removed": 1}, {"count": 1, "removed": 1}]
    assert "2 of 3 records were removed" in run.warnings


@pytest.mark.row("000-41", "C-7")
async def test_the_profile_updater_suggests_one_memory_for_each_change(catalog: Catalog) -> None:
    updates = {"name": "Ada", "city": "Oslo", "shoe_size": "38"}
    run = await catalog.run("user-profile-updater", {"updates": updates, "profile": {"city": "Oslo"}}, context={"userId": "u1"})
    assert [(write.owner_id, write.type, write.importance) for write in run.memory_writes] == [("u1", "fact", 5)]
    assert isinstance(run.output, dict)
    assert list(run.output["rejected"]) == ["shoe_size"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"characters": 0, "words": 0, "sentences": 0, "lines": 0, "paragraphs": 0, "reading_minutes": 0}),
        ("Pi is 3.14, e.g. a number.", {"words": 6, "sentences": 1}),
        ("今天天气很好。我们去公园吧！", {"words": 12, "cjk_characters": 12, "sentences": 2}),
        ("a\r\n\r\nb", {"characters": 4, "lines": 3, "paragraphs": 2}),
    ],
)
async def test_text_statistics_counts_by_its_own_rules(catalog: Catalog, text: str, expected: dict[str, Any]) -> None:
    run = await catalog.run("text-statistics", {"text": text})
    assert _holds(run.output, expected), run.output


@pytest.mark.parametrize(
    ("script", "given"),
    [("text-statistics/scripts/execute.py", {"text": "One fish."}), ("data-processor/scripts/execute.py", {"data": [{"n": 1}]}),
     ("csv-summary/scripts/summarize.py", {"csv": "n\n1\n"})],
)  # fmt: skip
def test_a_script_prints_its_output_where_there_is_only_a_command_line(script: str, given: dict[str, Any]) -> None:
    command = [sys.executable, str(EXAMPLES / script)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    assert isinstance(json.loads(done.stdout), dict)
