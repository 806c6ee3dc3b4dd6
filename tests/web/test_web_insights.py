"""Whether skills work is seen from the first page on: what fails, who uses what, whether an update made it better."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

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
    needs = page.get_by_role("region", name="Needs you").get_by_role("link")
    expect(needs).to_have_count(1, timeout=30_000)
    expect(needs).to_contain_text("data-processor")
    expect(page.get_by_role("region", name="Most used").get_by_role("link")).to_have_count(2)
    chart = page.get_by_role("figure", name="Runs a day in the last 14 days")
    expect(chart.get_by_role("link")).to_have_count(14)
    expect(chart.get_by_role("link").last).to_have_accessible_name(re.compile("Succeeded 1, Failed 1$"))
    chart.get_by_role("button", name="Show as a table").click()
    expect(chart.get_by_role("table").get_by_role("row")).to_have_count(15)
    readable(page)
    uncut(page)

    page.get_by_role("link", name="All insights").click()
    page.get_by_role("button", name="Sort by Failed").click()
    expect(page).to_have_url(re.compile("sort=failed"))
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("data-processor")
    page.get_by_role("link", name="1 runs of config:text-statistics").click()
    expect(page).to_have_url(re.compile(r"/runs\?.*skill="))
    listed = page.get_by_role("list", name="Runs").get_by_role("link")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("Page and HTTP")
    listed.click()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("textbox", name="text", exact=True)).to_have_value(TEXT)
    page.get_by_role("tab", name="Overview").click()
    expect(page.get_by_role("region", name="Use", exact=True)).to_contain_text(re.compile(r"Runs\s*1"))
    expect(page.get_by_role("region", name="Who uses it").get_by_role("link", name="Page and HTTP")).to_be_visible()


def test_two_versions_stand_side_by_side_with_what_became_of_them(site: Site, visit: Open, readable: Check) -> None:
    for version, more in (("1.0.0", {}), ("1.1.0", {"greeter/scripts/extra.sh": "#!/bin/sh\necho hi\n"})):
        _install(site, version, more)
        site.ask("POST", RUNS, {"skill": "installed:greeter"})
    page = visit(site, "/skills/installed:greeter")
    page.get_by_role("link", name="Compare the last two").click()
    compared = page.get_by_role("region", name="Compare")
    expect(compared.get_by_text("The later one may do one thing more")).to_be_visible()
    expect(compared.get_by_role("table").first.get_by_role("row").filter(has_text="Instructions")).to_contain_text("tokens")
    live = compared.get_by_role("table").last
    expect(live.get_by_role("columnheader")).to_have_text(["1.0.0", "1.1.0", "Change"])
    expect(live.get_by_role("row").filter(has_text="Succeeded")).to_contain_text("100%")
    expect(compared.get_by_text("1 added")).to_be_visible()
    readable(page)
    before = page.get_by_label("Before").input_value()
    page.get_by_label("After").select_option(before)
    expect(page).to_have_url(re.compile(f"after=(%22)?{before}"))


def test_enter_takes_the_first_that_the_palette_finds(site: Site, visit: Open) -> None:
    agent = site.ask("POST", "/api/v1/agents", {"name": "Proofreader", "system_prompt": "You read."})["data"]["id"]
    page = visit(site, "/settings")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_placeholder("Find or go to").press_sequentially("proofr")
    page.keyboard.press("Enter")  # before anything was found
    expect(page).to_have_url(re.compile(f"/agents/{agent}"))


def _install(site: Site, version: str, more: dict[str, str]) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        header = f"name: greeter\ndescription: Greets.\nversion: {version}\ntype: direct"
        archive.writestr("greeter/SKILL.md", f"---\n{header}\n---\nIt is {version}.\n")
        archive.writestr("greeter/scripts/execute.py", "def execute(parameters, context=None):\n    return {'said': 'hi'}\n")
        for name, text in more.items():
            archive.writestr(name, text)
    body = b"--b\r\nContent-Disposition: form-data; name=file; filename=g.zip\r\n\r\n" + stream.getvalue() + b"\r\n--b--\r\n"
    media = "multipart/form-data; boundary=b"
    path = "/api/v1/skill-definitions"
    change = site.ask("POST", f"{path}/inspect", raw=body, media=media)["data"][0]["change"]
    consent = f"&consent={change['consent']}" if change else ""
    site.ask("POST", f"{path}/upload-create?wait=true{consent}", raw=body, media=media)
