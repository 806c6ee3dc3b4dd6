"""What people come to the page for, done as they do it: install, read, run, go back, deny."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]
Check = Callable[[Page], None]

_DROP = """([target, name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name, { type: "application/zip" }));
  for (const kind of ["dragenter", "dragover", "drop"])
    target.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
}"""
_SCRIPT = """def execute(parameters, context=None, config=None):
    print("greeting", parameters["name"])
    steps = [
        {"stepId": "1", "stepName": "think", "duration": 2},
        {"stepId": "2", "stepName": "write", "duration": 6, "output": {"sheets": 3}},
    ]
    output = {"greeting": f"Good day, {parameters['name']}!", "letters": [{"letter": "a", "times": 2}]}
    return {"status": "success", "output": output, "intermediateSteps": steps}
"""
_HEADER = """name: {name}
description: Greets people by name. Use when somebody arrives.
version: {version}
type: direct
input_schema:
  type: object
  properties:
    name: {{type: string, description: Whom to greet}}
  required: [name]
"""


def greeter(version: str, name: str = "greeter") -> bytes:
    """The archive of a small skill with a script."""
    stream = io.BytesIO()
    header = _HEADER.format(name=name, version=version)
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{name}/SKILL.md", f"---\n{header}---\n# Greeter\n\nSay **good day** in version {version}.\n")
        archive.writestr(f"{name}/scripts/execute.py", _SCRIPT)
        archive.writestr(f"{name}/references/manners.md", "# Manners\n\nBow first.\n")
    return stream.getvalue()


def drop(page: Page, data: bytes, name: str = "greeter.zip") -> None:
    """Let go of a file over the page."""
    import base64

    target = page.get_by_text("Drop an archive or a folder here")
    expect(target).to_be_visible()
    page.evaluate(_DROP, [target.element_handle(), name, base64.b64encode(data).decode()])


def install(page: Page, data: bytes) -> None:
    """From the drop to the end."""
    drop(page, data)
    expect(page.get_by_text("1 skill found")).to_be_visible()
    page.get_by_role("button", name="Install it").click()
    expect(page.get_by_role("link", name="Open the skill")).to_be_visible()


def tab(page: Page, name: str) -> Locator:
    """A tab of a skill, opened."""
    page.get_by_role("tab", name=name).click()
    return page.get_by_role("tabpanel")


SKILLS = "/api/v1/skill-definitions"


@pytest.fixture
def site(site: Site) -> Site:
    """The server of this module, without agents."""
    site.clear("/api/v1/agents")
    return site


@pytest.mark.row("003-15")
def test_a_skill_is_dropped_looked_at_installed_read_run_and_taken_back(site: Site, visit: Open) -> None:
    installed = site.ask("GET", SKILLS)["data"]
    page = visit(site, "/install")
    drop(page, greeter("1.0.0"))
    expect(page.get_by_text("1 skill found")).to_be_visible()
    expect(page.get_by_text("Nothing is installed yet")).to_be_visible()
    assert site.ask("GET", SKILLS)["data"] == installed
    page.get_by_role("button", name="Install it").click()
    page.get_by_role("link", name="Open the skill").click()

    expect(page.get_by_role("heading", level=1, name="greeter")).to_be_visible()
    expect(tab(page, "Instructions").get_by_text("Say good day in version 1.0.0.")).to_be_visible()
    files = tab(page, "Files")
    files.get_by_text("manners.md").click()
    expect(files.get_by_text("Bow first.")).to_be_visible()

    form = tab(page, "Run")
    form.get_by_role("button", name="Run it").click()
    expect(form.get_by_text("Required", exact=True)).to_be_visible()
    form.get_by_label(re.compile("^name")).fill("Ada")
    form.get_by_role("button", name="Run it").click()
    expect(form.get_by_text("Good day, Ada!")).to_be_visible()
    form.get_by_role("link", name="Open the run").click()
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.get_by_role("listitem").filter(has=page.get_by_role("img", name="Step"))).to_have_count(2)
    expect(timeline.get_by_text("slowest")).to_be_visible()
    timeline.get_by_role("button", name="write").click()
    expect(timeline.get_by_text("sheets")).to_be_visible()
    timeline.get_by_role("button", name="Show as a table").click()
    expect(timeline.get_by_role("row").filter(has_text="Script")).to_contain_text("greeter")
    expect(page.get_by_role("log")).to_have_text("greeting Ada\n")

    page.goto("/install")
    install(page, greeter("2.0.0"))
    page.get_by_role("link", name="Open the skill").click()
    tab(page, "Instructions")
    expect(page.get_by_text("Say good day in version 2.0.0.")).to_be_visible()
    versions = tab(page, "Versions")
    page.wait_for_load_state("networkidle")  # while the parts of the comparison came, the click on the dialog was lost once
    versions.get_by_role("button", name="Back to this").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Back to this").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    tab(page, "Instructions")
    expect(page.get_by_text("Say good day in version 1.0.0.")).to_be_visible()


def test_a_skill_that_is_denied_vanishes_for_agents_and_says_why_to_people(site: Site, ruled_site: Site, visit: Open) -> None:
    wanted = "how+long+does+it+take+to+read"
    listed = visit(site, f"/skills?q={wanted}").get_by_role("list", name="Skills")
    expect(listed.get_by_text("text-statistics").first).to_be_visible()
    page = visit(ruled_site, f"/skills?q={wanted}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("main")).not_to_contain_text("Counts characters, words")
    found = ruled_site.ask("GET", f"/api/v1/catalog/search?q={wanted}")["data"]
    assert "text-statistics" not in str(found)
    page.watch.forgive("status of 403")  # type: ignore[attr-defined] # its files may not be read
    page.goto("/skills/config:text-statistics")
    expect(page.get_by_role("main").get_by_text("Denied", exact=True).first).to_be_visible()


def test_a_skill_is_switched_off_and_on_again(site: Site, visit: Open) -> None:
    page = visit(site, "/skills/config:text-statistics")
    page.get_by_role("button", name="For agents: Automatic").click()
    page.get_by_role("menuitemradio", name=re.compile("^Off")).click()
    expect(page.get_by_text("Disabled", exact=True).first).to_be_visible()
    page.get_by_role("button", name="For agents: Off").click()
    page.get_by_role("menuitemradio", name=re.compile("^Automatic")).click()
    expect(page.get_by_text("Ready", exact=True).first).to_be_visible()


def test_a_run_that_a_rule_asks_about_waits_for_the_answer_on_the_page(ruled_site: Site, visit: Open) -> None:
    page = visit(ruled_site, "/runs")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    order = {"skill": "data-processor", "parameters": {"data": [{"n": 1}]}, "wait": False}
    run = ruled_site.ask("POST", "/api/v1/runs", order)["data"]["run_id"]
    page.goto(f"/runs/{run}")
    expect(page.get_by_text("This run is waiting for approval")).to_be_visible()
    page.reload()
    expect(page.get_by_role("navigation", name="Pages").get_by_label("1 pending request")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    page.get_by_role("link", name="Review").click()
    page.get_by_role("button", name="Allow for longer").click()
    page.get_by_role("menuitem", name="Always allow here").click()
    expect(page.get_by_text("No pending requests")).to_be_visible()
    expect(page.get_by_role("region", name="Approved").get_by_role("link")).to_be_visible()
    page.goto(f"/runs/{run}")
    expect(page.get_by_text("Succeeded")).to_be_visible()

    page.goto("/approvals")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No approvals in this workspace")).to_be_visible()

    ruled_site.ask("POST", "/api/v1/runs", order)
    page.get_by_placeholder("Reason for refusing").fill("not today")
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_text("No pending requests")).to_be_visible()
    page.goto("/runs")
    expect(page.get_by_role("list", name="Runs").get_by_text("not today")).to_be_visible()


def test_a_run_is_seen_while_it_works_and_ended_from_the_page(site: Site, visit: Open) -> None:
    slow = site.project / "skills/slow"
    (slow / "scripts").mkdir(parents=True)
    (slow / "SKILL.md").write_text("---\nname: slow\ndescription: Takes its time. Use when waiting is tried.\n---\n# Slow\n")
    lines = "import time\nfor second in range(100):\n    print('second', second, flush=True)\n    time.sleep(0.2)\n"
    (slow / "scripts/execute.py").write_text(lines)
    site.ask("POST", "/api/v1/catalog/refresh")
    run = site.ask("POST", "/api/v1/runs", {"skill": "slow", "wait": False, "timeout_ms": 60_000})["data"]["run_id"]
    page = visit(site, f"/runs/{run}")
    expect(page.get_by_text("Running")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("second 3")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the run")).to_have_count(0)


@pytest.mark.parametrize("name", ["notes.txt", "empty.zip"])
def test_what_is_no_skill_is_refused_with_a_way_out_and_can_be_chosen_anew(site: Site, visit: Open, name: str) -> None:
    installed = site.ask("GET", SKILLS)["data"]
    page = visit(site, "/install")
    page.watch.forgive("Failed to load resource")  # type: ignore[attr-defined]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("README.md", "nothing here")
    drop(page, stream.getvalue() if name.endswith("zip") else b"hello", name)
    expect(page.get_by_role("alert")).to_be_visible()
    assert site.ask("GET", SKILLS)["data"] == installed
    install(page, greeter("1.0.0", f"greeter-{name.partition('.')[0]}"))


def test_an_agent_is_built_while_its_exact_prompt_is_shown(site: Site, visit: Open) -> None:
    page = visit(site, "/agents")
    page.get_by_role("link", name="Create an agent").click()
    reported = page.get_by_role("region", name="Text", exact=True)
    expect(reported).to_contain_text("csv-summary")  # none chosen: all
    page.get_by_role("textbox", name="Name").fill("Editor")
    page.get_by_role("textbox", name="Prompt").fill("You are a careful editor.")
    page.get_by_placeholder("Add a skill").fill("how long does it take to read")
    page.get_by_role("option", name=re.compile("text-statistics")).click()
    expect(reported).to_contain_text("You are a careful editor.")
    expect(reported).to_contain_text("text-statistics")
    expect(reported).not_to_contain_text("csv-summary")
    page.get_by_role("tab", name="Tokens per skill").click()
    expect(page.get_by_role("region", name="Tokens per skill").get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Editor")
    kept = site.ask("GET", "/api/v1/agents")["data"]
    assert [(one["name"], one["system_prompt"]) for one in kept] == [("Editor", "You are a careful editor.")]
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No agents yet")).to_be_visible()


def test_the_card_that_says_how_a_model_is_set_up_is_whole(site: Site, visit: Open, uncut: Callable[[Page], None]) -> None:
    for width, language in ((1280, "en-US"), (390, "zh-CN")):
        page = visit(site, "/chat", width=width, language=language)
        expect(page.get_by_role("alert").get_by_label("SKILLYARD_MODEL")).to_be_visible(timeout=15_000)
        uncut(page)


def test_a_skill_is_put_into_the_folder_of_a_coding_agent_and_taken_out(
    site: Site, visit: Open, readable: Check, uncut: Check
) -> None:
    (site.home / ".claude").mkdir(exist_ok=True)
    page = visit(site, "/skills/config:text-statistics?tab=clients")
    part = page.get_by_role("region", name="Agents on this machine")
    switch = part.get_by_role("switch", name="text-statistics in Claude Code")
    expect(switch).not_to_be_checked(timeout=30_000)
    switch.click(force=True)
    expect(page.get_by_text("text-statistics was added to Claude Code")).to_be_visible()
    expect(switch).to_be_checked()
    linked = site.home / ".claude/skills/text-statistics"
    assert linked.resolve() == (site.project / "skills/text-statistics").resolve()
    readable(page)
    page.set_viewport_size({"width": 390, "height": 844})
    uncut(page)
    expect(page.get_by_role("tab", name="Clients")).to_be_in_viewport(ratio=1)
    page.goto("/agents")
    page.get_by_role("button", name="Remove text-statistics from Claude Code").click()
    expect(page.get_by_text("text-statistics was removed from Claude Code")).to_be_visible()
    assert not linked.exists()
    expect(page.get_by_role("region", name="Agents on this machine")).to_contain_text("no skill of this server")
    readable(page)
    uncut(page)


def test_a_skill_that_others_bring_along_is_agreed_to_and_shown_with_why_it_is_here(site: Site, visit: Open) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, more in (
            ("bringer", "requires: {skills: ['carried@^1'], mcp_servers: [crm]}\n"),
            ("carried", "version: 1.2.0\n"),
        ):
            header = f"name: {name}\ndescription: Does it. Use when a test needs a skill.\n{more}"
            archive.writestr(f"{name}/SKILL.md", f"---\n{header}---\n# Steps\n\nDo it.\n")
        archive.writestr("carried/scripts/execute.py", _SCRIPT)
    page = visit(site, "/install")
    drop(page, stream.getvalue())
    expect(page.get_by_text("2 skills found")).to_be_visible()
    page.get_by_role("checkbox", name="Install this one").nth(1).uncheck()
    page.get_by_role("button", name="Install it").click()
    asked = page.get_by_role("alert").filter(has_text="It requires other skills")
    expect(asked.get_by_text("bringer requires carried@^1")).to_be_visible()
    expect(asked.get_by_text("has the script scripts/execute.py")).to_be_visible()
    asked.get_by_role("button", name="Allow, and install them too").click()
    expect(page.get_by_role("link", name="Open the skill")).to_have_count(2)
    page.goto("/skills/installed:bringer?tab=safety")
    required = page.get_by_role("region", name="Dependencies")
    expect(required.get_by_role("listitem").filter(has_text="carried 1.2.0")).to_contain_text("available")
    expect(required.get_by_role("listitem").filter(has_text="crm")).to_contain_text("missing")
    page.goto("/skills/installed:carried?tab=safety")
    expect(page.get_by_role("region", name="Dependencies")).to_contain_text("Needed: bringer requires carried@^1")
    chinese = visit(site, "/skills/installed:carried?tab=safety", language="zh-CN", width=390)
    expect(chinese.get_by_role("region", name="它的依赖")).to_contain_text("bringer 需要 carried@^1")
