"""Whether skills work is seen from the first page on: what fails, who uses what, whether an update made it better."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from playwright.sync_api import Page, expect

from skillyard.conversations import ChatSettings, Conversation, ConversationStore, SkillUsageEvent, SkillUsageLog, Turn
from skillyard.database import Database

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]
Check = Callable[[Page], None]

RUNS = "/api/v1/runs"
TEXT = "One fish. Two fish."


def test_from_the_first_steps_to_the_runs_behind_each_figure(site: Site, visit: Open, readable: Check, uncut: Check) -> None:
    page = visit(site, "/")
    expect(page.get_by_role("heading", name="First steps")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Open the example").click()
    expect(page).to_have_url(re.compile("tab=run"))

    for skill, parameters in (("text-statistics", {"text": TEXT}), ("data-processor", {"data": "no list"})):
        site.ask("POST", RUNS, {"skill": skill, "parameters": parameters})
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Home").click()
    page.reload()
    needs = page.get_by_role("region", name="Needs attention").get_by_role("link")
    expect(needs).to_have_count(1, timeout=30_000)
    expect(needs).to_contain_text("data-processor")
    expect(page.get_by_role("region", name="Most used").get_by_role("link")).to_have_count(2)
    chart = page.get_by_role("figure", name="Runs per day, last 14 days")
    expect(chart.get_by_role("link")).to_have_count(14)
    expect(chart.get_by_role("link").last).to_have_accessible_name(re.compile("Succeeded 1, Failed 1$"))
    line, bar = (
        chart.get_by_text("2", exact=True).bounding_box(),
        chart.get_by_role("link").last.locator("span").last.bounding_box(),
    )
    assert line is not None
    assert bar is not None
    assert abs(line["y"] - bar["y"]) <= 3, "the line of 2 is as high as a bar of 2"
    chart.get_by_role("button", name="Show as a table").click()
    expect(chart.get_by_role("table").get_by_role("row")).to_have_count(15)
    readable(page)
    uncut(page)

    page.get_by_role("link", name="All insights").click()
    page.get_by_role("button", name="Sort by Failed").click()
    expect(page).to_have_url(re.compile("sort=failed"))
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("data-processor")
    page.get_by_role("link", name="1 run of config:text-statistics").click()
    expect(page).to_have_url(re.compile(r"/runs\?.*skill="))
    listed = page.get_by_role("list", name="Runs").get_by_role("link")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("Page and HTTP")
    listed.click()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("textbox", name="text", exact=True)).to_have_value(TEXT)
    page.get_by_role("tab", name="Overview").click()
    expect(page.get_by_role("region", name="Usage", exact=True)).to_contain_text(re.compile(r"Runs\s*1"))
    expect(page.get_by_role("region", name="Who uses it").get_by_role("link", name="Page and HTTP")).to_be_visible()


def test_each_step_of_the_funnel_leads_to_its_turns(site: Site, visit: Open, readable: Check, uncut: Check) -> None:
    skill, now = "config:text-statistics", datetime.now(UTC)
    with closing(Database.open(str(site.home / "data"))) as database:
        records, trail = ConversationStore(lambda: database), SkillUsageLog(lambda: database)
        for chat, kinds in (("chat_a", ("offered", "loaded", "run", "outcome")), ("chat_b", ("offered",))):
            records.begin(Conversation(chat, "default/local user", f"About {chat}", None, "own:large", ChatSettings()))
            for number in range(1, 21):
                turn = Turn(f"{chat}_{number}", chat, 0, "running", f"Count this of {chat}, part {number}", created_at=now)
                records.start(turn)
                if number == 3:
                    trail.add([SkillUsageEvent(chat, turn.id, kind, skill) for kind in kinds])  # type: ignore[arg-type]
                records.note(turn.id, state="done", answer="It is long. " * 20, finished_at=now)
    page = visit(site, f"/skills/{skill}")
    funnel = page.get_by_role("region", name="In chats")
    expect(funnel.get_by_role("link")).to_have_text(["2", "1", "1", "1"], timeout=30_000)
    funnel.get_by_role("link", name="Loaded").click()
    expect(page).to_have_url(re.compile(r"/chat/turns\?.*stage=loaded"))
    listed = page.get_by_role("list", name="Turns").get_by_role("link")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("Count this of chat_a, part 3")
    readable(page)
    uncut(page)
    page.get_by_role("combobox", name="Stage").click()
    page.get_by_role("option", name="Offered").click()
    expect(listed).to_have_count(2)
    page.reload()
    expect(listed).to_have_count(2)
    page.get_by_role("button", name="All skills").click()
    expect(page).not_to_have_url(re.compile("skill="))
    listed.filter(has_text="chat_a").click()
    expect(page.get_by_role("article", name="Turn 3", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("article", name="Turn 20")).not_to_be_in_viewport()
    page.goto("/chat/report")
    page.get_by_role("row").filter(has_text="text-statistics").get_by_role("link", name="Offered").click()
    expect(listed).to_have_count(2)
    page.goto("/insights?by=model")
    page.get_by_role("link", name="40 of own:large, Turns").click()
    expect(page.get_by_role("status")).to_have_text("40 turns")


def test_two_versions_stand_side_by_side_with_what_became_of_them(site: Site, visit: Open, readable: Check) -> None:
    for version, more in (("1.0.0", {}), ("1.1.0", {"greeter/scripts/extra.sh": "#!/bin/sh\necho hi\n"})):
        _install(site, version, more)
        site.ask("POST", RUNS, {"skill": "installed:greeter"})
    page = visit(site, "/skills/installed:greeter")
    page.get_by_role("link", name="Compare the last two").click()
    compared = page.get_by_role("region", name="Compare")
    expect(compared.get_by_text("The later version adds 1 permission")).to_be_visible()
    expect(compared.get_by_role("table").first.get_by_role("row").filter(has_text="Instructions")).to_contain_text("tokens")
    live = compared.get_by_role("table").last
    expect(live.get_by_role("columnheader")).to_have_text(["1.0.0", "1.1.0", "Change"])
    expect(live.get_by_role("row").filter(has_text="Succeeded")).to_contain_text("100%")
    expect(compared.get_by_text("1 added")).to_be_visible()
    readable(page)
    playground = compared.get_by_role("region", name="Try both")
    playground.get_by_role("button", name="Run both").click()
    for version in ("1.0.0", "1.1.0"):
        expect(playground.get_by_role("group", name=version)).to_contain_text(f"hi from {version}", timeout=30_000)
    compared.get_by_role("button", name="Serve 1.0.0").click()
    page.get_by_role("dialog").get_by_role("button", name="Serve 1.0.0").click()
    expect(compared.get_by_role("button", name="Serve 1.1.0")).to_be_visible()
    assert [
        one["declared_version"]
        for one in site.ask("GET", "/api/v1/skill-definitions/greeter/versions")["data"]
        if one["current"]
    ] == ["1.0.0"]
    before = page.get_by_label("Before").input_value()
    page.get_by_label("After").select_option(before)
    expect(page).to_have_url(re.compile(f"after=(%22)?{before}"))


def test_tests_run_from_the_page_and_a_failing_case_says_what_it_was_given_and_got(
    site: Site, visit: Open, readable: Check
) -> None:
    file = site.project / "skills/text-statistics/tests/examples.json"
    cases = json.loads(file.read_text("utf-8"))
    listed = cases["examples"] if isinstance(cases, dict) else cases
    wrong = {"name": "a wrong one", "input": {"text": "One fish."}, "output": {"words": 7}}
    file.write_text(json.dumps([*listed, wrong]), "utf-8")
    site.ask("POST", RUNS, {"skill": "text-statistics", "parameters": {"text": TEXT}})
    site.ask("POST", "/api/v1/catalog/refresh")
    page = visit(site, "/skills/config:text-statistics?tab=tests")
    expect(page.get_by_text("These tests have not been run yet.")).to_be_visible()
    page.get_by_role("button", name="Run the tests").click()
    expect(page.get_by_role("status").get_by_text(re.compile(rf"^{len(listed)} of {len(listed) + 1} passed"))).to_be_visible(
        timeout=60_000
    )
    failing = page.get_by_role("list", name="Cases").get_by_role("listitem").filter(has_text="a wrong one")
    expect(failing.get_by_role("group", name="Input")).to_contain_text("One fish.")
    expect(failing.get_by_role("group", name="Expected")).to_contain_text("7")
    expect(failing.get_by_role("group", name="Got")).to_contain_text("2")
    result = page.get_by_role("region", name="Results by version").get_by_role("row").nth(1)
    expect(result).to_contain_text("1.0.0")
    expect(result).to_contain_text(f"1 of {len(listed) + 1} failed")
    readable(page)
    page.goto("/skills/config:text-statistics?tab=overview")
    users = page.get_by_role("region", name="Who uses it")
    expect(users.get_by_text("Interface")).to_be_visible()
    expect(users).not_to_contain_text("Tests")
    page.goto("/")  # a test that fails is no run that fails
    expect(page.get_by_role("region", name="Last 14 days")).to_be_visible(timeout=30_000)
    expect(
        page.get_by_role("region", name="Needs attention").get_by_role("link").filter(has_text="text-statistics")
    ).to_have_count(0)
    page.goto("/runs?skill=config:text-statistics&tests=false")
    expect(page.get_by_text("Without tests")).to_be_visible()
    expect(page.get_by_role("list", name="Runs")).not_to_contain_text("Tests")


def test_prompts_are_tried_from_the_page_and_a_better_description_is_proposed(
    site: Site, visit: Open, readable: Check, uncut: Check
) -> None:
    skill = site.project / "skills/bookkeeper"
    (skill / "evals").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: bookkeeper\ndescription: Keeps books in order.\nversion: 2.0.0\n---\n# Books\n", "utf-8"
    )
    said = [
        f"reconcile {text} of march"
        for text in ("ledger", "invoice", "ledger invoice", "my ledger", "an invoice", "the ledger")
    ]
    prompts = [{"query": text, "should_trigger": True} for text in (*said, "Keep my books")]
    (skill / "evals/triggers.json").write_text(
        json.dumps([*prompts, {"query": "Sing a song", "should_trigger": False}]), "utf-8"
    )
    site.ask("POST", "/api/v1/catalog/refresh")
    page = visit(site, "/skills/config:bookkeeper?tab=triggers")
    expect(page.get_by_text("These prompts have not been tested yet.")).to_be_visible()
    page.get_by_role("button", name="Test the prompts").click()
    expect(page.get_by_role("status").get_by_text(re.compile("^2 of 8 as expected"))).to_be_visible(timeout=60_000)
    listed = page.get_by_role("list", name="Prompts").get_by_role("listitem")
    expect(listed.filter(has_text="Sing a song")).to_contain_text("not found, as expected")
    hit = listed.filter(has_text="Keep my books")
    expect(hit).to_contain_text("found first")
    hit.get_by_role("button").click()
    expect(hit.get_by_role("link", name="bookkeeper")).to_be_visible()
    proposal = page.get_by_role("region", name="Suggested description")
    expect(proposal).to_contain_text("Keeps books in order. Also for:")
    proposal.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("Keeps books in order. Also for:")
    expect(page.get_by_role("region", name="Results by version").get_by_role("row").nth(1)).to_contain_text("2.0.0")
    readable(page)
    page.get_by_label("切换到中文").click()
    page.get_by_label("使用深色").click()
    page.set_viewport_size({"width": 360, "height": 860})
    expect(page.get_by_text("更好的描述")).to_be_visible()
    readable(page)
    uncut(page)
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)


def test_what_agents_get_of_a_skill_is_chosen_and_found_again(site: Site, visit: Open) -> None:
    site.stop()
    site.configure('[sets]\nwriting = ["text-statistics", "changelog-writer"]\n')
    site.start()
    agent = site.ask("POST", "/api/v1/agents", {"name": "Writer", "skills": [{"skill": "csv-summary"}]})["data"]["id"]
    page = visit(site, "/skills/config:text-statistics")
    page.get_by_role("button", name="For agents: Automatic").click()
    page.get_by_role("menuitemradio", name=re.compile("^Name only")).click()
    expect(page.get_by_role("button", name="For agents: Name only")).to_be_visible()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Add to an agent").click()
    page.get_by_role("dialog").get_by_role("button", name="Add to Writer").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Added")).to_be_visible()
    kept = site.ask("GET", f"/api/v1/agents/{agent}")["data"]["skills"]
    assert [one["skill_id"] for one in kept] == ["config:csv-summary", "config:text-statistics"]

    page.goto("/skills?use=name-only")
    expect(page.get_by_role("list", name="Skills").get_by_role("listitem")).to_have_count(1)
    page.goto("/skills")
    page.get_by_label("Set of skills").select_option(label="Set writing: 2 skills")
    expect(page.get_by_text("Agents are offered the skills of writing")).to_be_visible()
    assert site.ask("GET", "/api/v1/catalog/sets")["data"]["chosen"] == "writing"
    page.get_by_label("Set of skills").select_option(label="No set: all skills")
    expect(page.get_by_text("Agents are offered all skills")).to_be_visible()


def test_the_palette_finds_skills_in_own_words_and_enter_takes_the_first_that_it_finds(site: Site, visit: Open) -> None:
    agent = site.ask("POST", "/api/v1/agents", {"name": "Proofreader", "system_prompt": "You read."})["data"]["id"]
    page = visit(site, "/settings")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_placeholder("Search or go to").press_sequentially("proofr")
    page.keyboard.press("Enter")  # before anything was found
    expect(page).to_have_url(re.compile(f"/agents/{agent}"))
    page.keyboard.press("Control+k")
    page.get_by_placeholder("Search or go to").fill("how long does it take to read")
    page.get_by_role("dialog").get_by_text("text-statistics").first.click()
    expect(page).to_have_url(re.compile(r"/skills/config(:|%3A)text-statistics"))


def _install(site: Site, version: str, more: dict[str, str]) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        header = f"name: greeter\ndescription: Greets.\nversion: {version}\ntype: direct"
        archive.writestr("greeter/SKILL.md", f"---\n{header}\n---\nIt is {version}.\n")
        archive.writestr(
            "greeter/scripts/execute.py",
            f"def execute(parameters, context=None):\n    return {{'output': 'hi from {version}'}}\n",
        )
        for name, text in more.items():
            archive.writestr(name, text)
    body = b"--b\r\nContent-Disposition: form-data; name=file; filename=g.zip\r\n\r\n" + stream.getvalue() + b"\r\n--b--\r\n"
    media = "multipart/form-data; boundary=b"
    path = "/api/v1/skill-definitions"
    change = site.ask("POST", f"{path}/inspect", raw=body, media=media)["data"][0]["change"]
    consent = f"&consent={change['consent']}" if change else ""
    site.ask("POST", f"{path}/upload-create?wait=true{consent}", raw=body, media=media)
