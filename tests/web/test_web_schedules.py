"""Schedules on the page: looked at, made with their next times before one's eyes, paused, removed; their runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Locator, Page, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]

SCHEDULES = "/api/v1/schedules"
NIGHTLY = {"name": "nightly", "skill": "data-processor", "parameters": {"data": [{"n": 1}]}, "cron": "0 3 * * mon-fri"}


@pytest.fixture
def site(site: Site) -> Site:
    """The server of this module, without schedules."""
    site.clear(SCHEDULES)
    return site


def test_a_schedule_is_made_for_a_skill_with_its_next_times_before_ones_eyes(site: Site, visit: Open) -> None:
    page = visit(site, "/schedules")
    expect(page.get_by_text("No schedules yet")).to_be_visible()
    page.get_by_role("link", name="Add a schedule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Skill").fill("how long does it take to read")
    page.get_by_role("option", name=re.compile("text-statistics")).click()
    expect(form.get_by_label("Name")).to_have_value("text-statistics")
    form.get_by_label("Name").fill("reading")

    form.get_by_role("combobox", name="Repeats").select_option(label="Every week")
    form.get_by_label("On", exact=True).select_option(label="Sunday")
    form.get_by_label(re.compile("^At")).fill("09:30")
    form.get_by_label("Time zone").fill("Shanghai")
    page.get_by_role("option", name="Asia/Shanghai").click()
    expect(form.get_by_role("status").get_by_text(re.compile("^Sun, .*09:30"))).to_have_count(5)

    form.get_by_role("button", name="Add schedule").click()
    expect(form.get_by_text("Required", exact=True)).to_be_visible()  # the skill wants a text
    form.get_by_label(re.compile("^text")).fill("One fish.")
    form.get_by_role("button", name="Add schedule").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem")
    expect(row).to_contain_text("Every Sunday at 09:30 · Asia/Shanghai · text-statistics")
    (kept,) = site.ask("GET", SCHEDULES)["data"]
    assert (kept["cron"], kept["time_zone"], kept["parameters"]["text"]) == ("30 9 * * sun", "Asia/Shanghai", "One fish.")


def test_a_schedule_is_paused_goes_on_and_is_removed_when_that_is_confirmed(site: Site, visit: Open) -> None:
    site.ask("POST", SCHEDULES, NIGHTLY)
    page = visit(site, "/schedules")
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem")
    page.get_by_role("button", name="Actions for nightly").click()
    page.get_by_role("menuitem", name="Pause").click()
    expect(row.get_by_text("Paused")).to_be_visible()
    row.get_by_role("link", name="nightly").click()
    expect(page.get_by_text("Paused until")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("region", name="Next runs").get_by_role("listitem")).to_have_count(5)
    facts = page.get_by_role("region", name="Schedule", exact=True)
    expect(facts).to_contain_text("Monday to Friday at 03:00")
    expect(facts).to_contain_text("local user")

    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(site.ask("GET", SCHEDULES)["data"]) == 1
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No schedules yet")).to_be_visible()
    assert site.ask("GET", SCHEDULES)["data"] == []


def test_a_schedule_leads_to_its_runs_and_a_run_back_to_its_schedule(site: Site, visit: Open) -> None:
    soon = {key: value for key, value in NIGHTLY.items() if key != "cron"}
    site.ask("POST", SCHEDULES, soon | {"at": (datetime.now(UTC) + timedelta(seconds=5)).isoformat()})
    site.ask("POST", "/api/v1/runs", {"skill": "data-processor", "parameters": {"data": []}})
    page = visit(site, "/schedules/nightly")
    runs = page.get_by_role("region", name="Last runs")
    expect(runs.get_by_text("Succeeded")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("Finished: it will not run again")).to_be_visible()
    runs.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("list", name="Runs").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("list", name="Runs").get_by_role("link").click()
    page.get_by_role("region", name="Run", exact=True).get_by_role("link", name="nightly").click()
    expect(page).to_have_url(re.compile("/schedules/nightly$"))
    page.get_by_role("link", name="All schedules").click()
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem")
    expect(row.get_by_text("Finished")).to_be_visible()
    expect(row.get_by_text("Succeeded")).to_be_visible()


def test_a_schedule_is_changed_and_run_now_and_its_runs_are_found_together(site: Site, visit: Open) -> None:
    site.ask("POST", SCHEDULES, NIGHTLY | {"name": "evening"})
    page = visit(site, "/schedules/evening")
    page.get_by_role("link", name="Edit").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_role("combobox", name="Repeats")).to_have_value("workdays")
    expect(form.get_by_label(re.compile("^At"))).to_have_value("03:00")
    form.get_by_role("combobox", name="Repeats").select_option(label="Every day")
    form.get_by_label(re.compile("^At")).fill("04:30")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("region", name="Schedule", exact=True)).to_contain_text("Every day at 04:30")

    page.get_by_role("button", name="Run now").click()
    runs = page.get_by_role("region", name="Last runs")
    expect(runs.get_by_text("Succeeded")).to_be_visible(timeout=30_000)
    kept = site.ask("GET", f"{SCHEDULES}/evening")["data"]
    assert (kept["cron"], kept["parameters"]) == ("30 4 * * *", {"data": [{"n": 1}]})
    page.get_by_role("link", name="All schedules").click()
    page.get_by_role("button", name="Actions for evening").click()
    page.get_by_role("menuitem", name="All runs").click()
    expect(page).to_have_url(re.compile("/runs.schedule=evening"))
    expect(page.get_by_role("list", name="Runs").get_by_role("listitem")).to_have_count(1)


def test_a_schedule_that_is_not_there_can_be_made(site: Site, visit: Open) -> None:
    page = visit(site, "/schedules/new")
    page.watch.forgive("status of 404")  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("There is no schedule 'new'")
    page.get_by_role("link", name="Add a schedule").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Add schedule")).to_be_visible()


@pytest.mark.parametrize(("said", "why"), [("0 0 30 2 *", "ever comes due"), ("whenever", "not a valid cron expression")])
def test_a_time_that_never_comes_is_reported_while_it_is_written(site: Site, visit: Open, said: str, why: str) -> None:
    page = visit(site, "/schedules?add=config:data-processor")
    page.watch.forgive("status of 400")  # type: ignore[attr-defined]
    form = page.get_by_role("dialog")
    form.get_by_role("combobox", name="Repeats").select_option(label="Cron expression")
    form.get_by_label("Cron expression").fill(said)
    expect(form.get_by_role("alert")).to_contain_text(why)


def test_a_schedule_of_a_taken_name_is_refused_and_nothing_that_was_written_is_lost(site: Site, visit: Open) -> None:
    site.ask("POST", SCHEDULES, NIGHTLY)
    page = visit(site, "/schedules?add=config:data-processor")
    page.watch.forgive("status of 409")  # type: ignore[attr-defined]
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("nightly")
    form.get_by_text("JSON", exact=True).click()
    form.get_by_role("textbox", name="Parameters").fill('{"data": [1]}')
    form.get_by_role("button", name="Add schedule").click()
    expect(form.get_by_role("alert")).to_contain_text("There is a schedule 'nightly' already")
    expect(form.get_by_role("textbox", name="Parameters")).to_have_value(re.compile(r'"data"'))
    form.get_by_label("Name").fill("nightly-too")
    form.get_by_role("button", name="Add schedule").click()
    expect(page.get_by_role("list", name="Schedules").get_by_role("listitem")).to_have_count(2)


def takes_keys(menu: Locator) -> None:
    """Wait until an opened menu has the focus for good: two timers put it there, one when it is drawn and one after."""
    expect(menu.locator("[data-autofocus]")).to_be_focused()
    menu.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")


def test_schedules_go_by_keyboard_alone(site: Site, visit: Open) -> None:
    site.ask("POST", SCHEDULES, NIGHTLY)
    page = visit(site, "/schedules")
    page.get_by_role("button", name="Actions for nightly").focus()
    page.keyboard.press("Enter")
    takes_keys(page.get_by_role("menu"))
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Pause")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").get_by_text("Paused")).to_be_visible()
    page.get_by_role("link", name="Add a schedule").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("/schedules$"))


def test_a_schedule_that_is_held_says_why_and_is_taken_over(site: Site, visit: Open) -> None:
    key = site.ask("POST", "/api/v1/keys", {"name": "ci", "scopes": ["skills:read", "runs:execute"]})["data"]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key['secret']}"}
    urlopen(Request(f"{site.address}{SCHEDULES}", json.dumps(NIGHTLY).encode(), headers), timeout=60).close()
    site.ask("DELETE", f"/api/v1/keys/{key['key']['id']}")
    page = visit(site, "/schedules")
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem")
    expect(row.get_by_text("On hold")).to_be_visible()
    row.get_by_role("link", name="nightly").click()
    expect(page.get_by_text("the key of ci was revoked")).to_be_visible()
    page.get_by_role("button", name="Take over").click()
    expect(page.get_by_role("region", name="Next runs").get_by_role("listitem")).to_have_count(5)
    expect(page.get_by_role("region", name="Schedule", exact=True)).to_contain_text("local user")


def test_the_audit_log_is_sentences_that_words_and_days_find(site: Site, visit: Open) -> None:
    site.ask("POST", SCHEDULES, NIGHTLY)
    site.ask("POST", f"{SCHEDULES}/nightly/pause")
    page = visit(site, "/audit?q=nightly")
    rows = page.get_by_role("list", name="Audit").get_by_role("listitem")
    expect(rows.first).to_contain_text("local user paused the schedule nightly")
    page.get_by_role("textbox", name="Search the audit log").fill(
        "nightly add_schedule"
    )  # not only "add", which the id of a request may hold
    expect(rows.first).to_contain_text("local user added the schedule nightly")
    expect(page).to_have_url(re.compile(r"q=nightly(\+|%20)add"))
    page.get_by_label("To", exact=True).fill("2020-01-01")
    expect(page.get_by_text("No matching entries")).to_be_visible()
    expect(page).to_have_url(re.compile("until=2020-01-01"))
    page.get_by_label("To", exact=True).fill("")
    page.get_by_role("combobox", name="Action").fill("schedules.pause_schedule")
    expect(page.get_by_text("No matching entries")).to_be_visible()
    page.get_by_role("textbox", name="Search the audit log").fill("")
    expect(rows.first).to_contain_text("paused the schedule nightly")

    chinese = visit(site, "/audit?q=nightly", language="zh-CN")
    expect(chinese.get_by_role("listitem").filter(has_text="暂停了定时任务").first).to_contain_text("nightly")
