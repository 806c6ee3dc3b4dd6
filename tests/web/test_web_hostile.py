"""What a page must bear: a skill that is made to harm who looks at it, a slow line, and a server that dies."""

from __future__ import annotations

import io
import json
import signal
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]

_HARM = (
    '<script>alert(1)</script><img src=x onerror="alert(2)"><svg onload="alert(3)"></svg>'
    '<iframe src="https://evil.example/"></iframe><style>body{display:none}</style>'
    "[go](javascript:alert(4)) ![p](https://evil.example/pixel.png) "
    "\\u202Ereversed\\u202C \\u200Bhidden \\u001B[31mred\\u001B[0m \\u001B]0;title\\u0007"
)
_BODY = (
    '# <script>alert(5)</script>\n\n<img src="https://evil.example/a.png" onerror="alert(6)">\n\n'
    "[link](javascript:alert(7)) [data](data:text/html,<script>alert(8)</script>)\n\n"
    "![far](https://evil.example/b.png) ![svg](assets/evil.svg)\n\n"
    "<form action=https://evil.example><button>go</button></form>\n\n"
    "\u202eturned around\u202c \x1b[31mred\x1b[0m\n"
)
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(9)"><script>alert(10)</script>'
    '<image href="https://evil.example/c"/></svg>'
)
_SCRIPT = f"""import sys
HARM = {json.dumps(_HARM)}.encode().decode("unicode_escape")
def execute(parameters, context=None, config=None):
    print(HARM); print(HARM, file=sys.stderr)
    told = {{"input": {{HARM: HARM}}, "output": [{{HARM: HARM}}], "error": HARM}}
    step = {{"stepId": HARM, "stepName": HARM, "duration": 1, **told}}
    picture = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+"
    output = {{HARM: [{{HARM: HARM}}], "picture": picture}}
    return {{"status": "success", "message": HARM, "output": output, "intermediateSteps": [step]}}
"""


def _archive() -> bytes:
    quoted = f'"{_HARM.replace(chr(34), chr(92) + chr(34))}"'
    header = (
        f"name: hostile\ndisplayName: {quoted}\ndescription: {quoted}\nversion: {quoted}\nlicense: {quoted}\nauthor: {quoted}\n"
        f"tags: [{quoted}]\nkeywords: [{quoted}]\ntype: direct\ninput_schema:\n  type: object\n  properties:\n    {quoted}:\n"
        f"      type: string\n      description: {quoted}\n"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("hostile/SKILL.md", f"---\n{header}---\n{_BODY}")
        archive.writestr("hostile/scripts/execute.py", _SCRIPT)
        archive.writestr("hostile/assets/evil.svg", _SVG)
        archive.writestr("hostile/references/<img src=x onerror=alert(11)>.html", "<script>alert(12)</script>")
    return stream.getvalue()


def _send(site: Site, data: bytes) -> None:
    mark = b"----hostile"
    head = b'\r\nContent-Disposition: form-data; name="file"; filename="hostile.zip"\r\n\r\n'
    raw = b"--" + mark + head + data + b"\r\n--" + mark + b"--\r\n"
    media = f"multipart/form-data; boundary={mark.decode()}"
    accepted = "force=true&accept=bidirectional-controls"
    site.ask("POST", f"/api/v1/skill-definitions/upload-create?{accepted}", raw=raw, media=media)


@pytest.fixture(scope="module")
def hostile(shared_site: Site) -> Site:
    """The site of this module with the skill installed."""
    _send(shared_site, _archive())
    return shared_site


def _quiet(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    assert page.locator("iframe, form[action*=evil], main svg[onload], main img[onerror]").count() == 0
    assert page.evaluate("getComputedStyle(document.body).display") != "none"


def test_a_hostile_skill_is_text_wherever_it_is_shown(hostile: Site, site: Site, visit: Open) -> None:
    run = site.ask("POST", "/api/v1/runs", {"skill": "installed:hostile"})["data"]["run_id"]
    agent = {"name": "<img src=x onerror=alert(1)>", "system_prompt": _BODY, "skills": [{"skill": "installed:hostile"}]}
    made = site.ask("POST", "/api/v1/agents", agent)["data"]["id"]
    site.ask("POST", "/api/v1/memories", {"content": _BODY, "tags": ["<svg onload=alert(1)>"]})
    page = visit(site, "/skills")
    places = [f"/skills/installed:hostile?tab={tab}" for tab in ("about", "files", "run", "versions", "safety", "clients")]
    for place in ("/skills", *places, "/runs", f"/runs/{run}", "/agents", f"/agents/{made}", "/memory", "/audit"):
        page.goto(place)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        _quiet(page)
    page.goto(f"/runs/{run}")
    timeline = page.get_by_role("region", name="Timeline")
    for span in timeline.get_by_role("listitem").get_by_role("button").all():
        span.click()
    timeline.get_by_role("button", name="Show as a table").click()
    log = page.get_by_role("log").inner_text()
    assert "\x1b" not in log
    assert "\u202e" not in log
    assert "U+202E" in log
    _quiet(page)


def test_a_picture_of_a_skill_that_is_opened_by_itself_runs_nothing(hostile: Site, site: Site, visit: Open) -> None:
    page = visit(site, "/api/v1/skill-definitions/hostile/files/assets/evil.svg")
    page.wait_for_load_state("networkidle")
    page.goto("/api/v1/catalog/file?skill=installed:hostile&path=assets/evil.svg")
    page.wait_for_load_state("networkidle")


def test_a_slow_line_shows_places_and_then_the_skills(site: Site, visit: Open) -> None:
    page = visit(site, "about:blank", fresh=True)
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    slow = {"offline": False, "latency": 400, "downloadThroughput": 60_000, "uploadThroughput": 30_000}
    line.send("Network.emulateNetworkConditions", slow)
    page.goto("/skills", wait_until="commit")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=60_000)
    expect(page.get_by_role("list", name="Skills").get_by_role("listitem").first).to_be_visible(timeout=60_000)
    assert page.evaluate("window.__shift") < 0.05


def test_a_server_that_is_killed_is_reported_and_the_page_goes_on_when_it_is_back(site: Site, visit: Open) -> None:
    page = visit(site, "/runs")
    page.watch.forgive(r"ERR_CONNECTION|Failed to load resource|dynamically imported|preload CSS")  # type: ignore[attr-defined]
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    site.stop(signal.SIGKILL)
    page.get_by_label("Skill", exact=True).fill("csv-summary")
    expect(page.get_by_text("The server does not respond").first).to_be_visible(timeout=15_000)
    site.start()
    expect(page.get_by_text("The server does not respond")).to_have_count(0, timeout=30_000)
    expect(page.get_by_text("No matching runs")).to_be_visible()
    run = site.ask("POST", "/api/v1/runs", {"skill": "text-statistics", "parameters": {"text": "One fish."}})["data"]["run_id"]
    page.goto(f"/runs/{run}")
    expect(page.get_by_text("Succeeded")).to_be_visible()
    site.stop(signal.SIGKILL)
    page.goto("about:blank")
    site.start()
    page.goto("/runs")
    expect(page.get_by_role("list", name="Runs").get_by_text("text-statistics")).to_be_visible()


def test_a_run_whose_server_was_killed_is_shown_as_interrupted(site: Site, visit: Open) -> None:
    slow = site.project / "skills/slow"
    (slow / "scripts").mkdir(parents=True)
    (slow / "SKILL.md").write_text("---\nname: slow\ndescription: Takes its time. Use when waiting is tried.\n---\n# Slow\n")
    (slow / "scripts/execute.py").write_text("import time\ntime.sleep(60)\n")
    site.ask("POST", "/api/v1/catalog/refresh")
    run = site.ask("POST", "/api/v1/runs", {"skill": "slow", "wait": False})["data"]["run_id"]
    page = visit(site, f"/runs/{run}")
    page.watch.forgive(r"ERR_|Failed to load resource|dynamically imported|preload CSS")  # type: ignore[attr-defined]
    expect(page.get_by_text("Running")).to_be_visible()
    site.stop(signal.SIGKILL)
    site.start()
    expect(page.get_by_text("Interrupted", exact=True)).to_be_visible(timeout=30_000)
