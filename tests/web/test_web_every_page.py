"""Every page, as it is first seen: readable for everyone, still while it loads, without a word in the console, and light."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Response, Route, expect
from scripted_models import Call, Say, ScriptedModels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]

PAGES = (
    "/", "/insights", "/skills", "/skills/config:text-statistics", "/skills/config:text-statistics?tab=about",
    "/skills/config:text-statistics?tab=run", "/install", "/runs", "/runs/RUN",
    "/schedules", "/schedules?add=config:text-statistics", "/schedules/mornings",
    "/chat", "/chat/CHAT", "/chat/ASKS", "/chat/report",
    "/agents", "/agents/new", "/agents/AGENT", "/memory", "/approvals", "/audit", "/keys", "/workers", "/settings", "/doctor",
)  # fmt: skip
_BUDGET = 200 * 1000  # bytes of script, compressed, until the first page stands
_STILL = 0.05  # of the layout shift that browsers measure; over 0.1 counts as bad


def _seen() -> Iterator[Any]:
    """Each page in one of two ways by turns, and in `make test-long` in the other one too."""
    ways = (("light", "en-US", 1280), ("dark", "zh-CN", 360))
    for number, path in enumerate(PAGES):
        yield (path, *ways[number % 2])
        yield pytest.param(path, *ways[1 - number % 2], marks=pytest.mark.long)


@pytest.fixture(scope="module")
def lived_in(models: ScriptedModels, shared_site: Site) -> Iterator[Site]:
    """A site where something has happened: a run with steps, a conversation that is over and one that waits."""
    wanted = Call("run_skill", {"skill": "text-statistics", "input": {"text": "One fish."}})
    answer = "# Fish\n\nIt has *two* words:\n\n| word | times |\n|---|---|\n| fish | 1 |\n\n```python\nprint(2)  # words\n```\n"
    models.script(wanted, Say(answer), wanted)
    for name, rules in (("CHAT", {}), ("ASKS", {"*": "ask"})):
        shared_site.known[name] = _talked(shared_site, rules)
    run = shared_site.ask("POST", "/api/v1/runs", {"skill": "data-processor", "parameters": {"data": [{"n": 1}, {"n": 2}]}})
    shared_site.known["RUN"] = run["data"]["run_id"]
    rules = {"allow": ["Bash(git:*)", "Read(src/**)"], "deny": ["Bash(git push --force-with-lease --no-verify origin main)"]}
    agent = {
        "name": "Editor", "system_prompt": "You edit.", "skills": [{"skill": "text-statistics"}],
        "settings": {"commands": rules},
    }  # fmt: skip
    shared_site.known["AGENT"] = shared_site.ask("POST", "/api/v1/agents", agent)["data"]["id"]
    for name, cron in (("mornings", "0 8 * * mon-fri"), ("now-and-then", "7,30 */5 1,15 * *")):
        when = {"cron": cron, "time_zone": "Europe/Berlin"}
        shared_site.ask(
            "POST", "/api/v1/schedules", {"name": name, "skill": "text-statistics", "parameters": {"text": "."}} | when
        )
    shared_site.ask("POST", "/api/v1/memories", {"content": "Ada likes tea.", "tags": ["drinks"]})
    shared_site.ask("POST", "/api/v1/keys", {"name": "build server", "scopes": ["skills:read", "admin"]})
    yield shared_site


def _talked(site: Site, rules: dict[str, str]) -> str:
    """A conversation in which something was said, as far as it comes by itself."""
    body = {"model": "openai-chat:gpt-5", "settings": {"permissions": rules}}
    made = str(site.ask("POST", "/api/v1/chat/conversations", body)["data"]["id"])
    at = f"/api/v1/chat/conversations/{made}"
    turn = site.ask("POST", f"{at}/messages", {"text": "How many words has this: One fish."})["data"]["id"]
    with urlopen(f"{site.address}{at}/turns/{turn}/events", timeout=60) as reported:
        assert b"event: end" in reported.read()
    return made


def _at(site: Site, path: str) -> str:
    for name, value in site.known.items():
        path = path.replace(name, value)
    return path


def _settled(page: Page) -> None:
    """Wait until the page says what it is and asks for nothing more."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("heading", level=1)).to_have_count(1)


@pytest.mark.parametrize(("path", "scheme", "language", "width"), list(_seen()))
def test_a_page_is_readable_for_everyone_stands_still_and_fits_a_telephone(
    lived_in: Site,
    visit: Open,
    readable: Callable[[Page], None],
    uncut: Callable[[Page], None],
    path: str,
    scheme: str,
    language: str,
    width: int,
) -> None:
    page = visit(lived_in, _at(lived_in, path), scheme=scheme, language=language, width=width)
    _settled(page)
    assert page.locator("html").get_attribute("lang") == ("zh-CN" if language == "zh-CN" else "en")
    assert page.evaluate("window.__shift") < _STILL
    readable(page)
    page.set_viewport_size({"width": 360, "height": 860})
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)
    uncut(page)


def test_the_first_view_needs_less_script_than_its_budget(lived_in: Site, visit: Open) -> None:
    scripts: dict[str, int] = {}

    def count(answer: Response) -> None:
        if answer.request.resource_type == "script":
            scripts[answer.url.rpartition("/")[2]] = len(gzip.compress(answer.body(), 9, mtime=0))

    page = visit(lived_in, "about:blank", fresh=True)
    page.on("response", count)
    page.goto("/")
    _settled(page)
    assert scripts
    assert sum(scripts.values()) < _BUDGET, scripts


def test_a_frame_is_drawn_before_any_script_or_style_sheet_has_come(lived_in: Site, visit: Open) -> None:
    held: list[Route] = []
    page = visit(lived_in, "/healthz", fresh=True, scheme="dark")
    page.route("**/assets/*", lambda route: held.append(route))  # a method of a list takes no marks
    page.goto("/skills", wait_until="commit")
    frame = page.locator(".frame")
    expect(frame.get_by_text("Skillyard", exact=True)).to_be_visible()
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length === 1")
    drawn = frame.locator("nav").evaluate("(nav) => [nav.clientWidth, getComputedStyle(nav).backgroundColor]")
    assert drawn == [215, "rgb(21, 26, 32)"]
    assert held
    page.unroute("**/assets/*")  # which lets them through
    _settled(page)
    expect(frame).to_have_count(0)
    sheets = page.evaluate("[...document.styleSheets].filter((one) => one.href).map((one) => one.href.split('/').pop())")
    assert [name.partition("-")[0] for name in sheets[:2]] == ["first", "index"]  # what a later part says wins


def test_a_second_visit_asks_for_no_script_again(lived_in: Site, visit: Open) -> None:
    page = visit(lived_in, "/skills", fresh=True)
    _settled(page)
    sent: list[str] = []
    page.on("response", lambda answer: sent.append(answer.url) if not answer.from_service_worker else None)
    page.goto("/runs")
    _settled(page)
    kept = page.evaluate(
        "performance.getEntriesByType('resource').filter(e => e.name.includes('/assets/index-') && e.transferSize === 0).length"
    )
    assert kept >= 2, sent  # the script and the style of every page come from the browser's own store


def test_what_is_not_there_is_said_in_chinese_with_the_original_words_and_a_way_on(lived_in: Site, visit: Open) -> None:
    page = visit(lived_in, "/runs", language="zh-CN")
    page.watch.forgive("status of 404")  # type: ignore[attr-defined]
    answer = page.goto("/nope")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_text("没有这个页面")).to_be_visible()
    page.goto("/skills/nothing/at/all")
    expect(page.get_by_text("没有这个页面")).to_be_visible()
    page.get_by_role("link", name="前往技能列表").click()
    expect(page).to_have_url(re.compile(r"/skills$"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto("/runs/run_nosuch")
    reported = page.get_by_role("alert")
    expect(reported).to_contain_text("没有这条记录")
    expect(reported.locator("[lang=en]")).to_contain_text("run_nosuch")
    expect(reported.locator("[lang=en] code")).to_have_text("skillyard runs")
    page.goto("/doctor")
    expect(page.get_by_text("脚本所需的软件包")).to_be_visible()
    expect(page.get_by_text("沙箱 bwrap")).to_be_visible()


def test_the_chosen_language_and_colours_are_kept(lived_in: Site, visit: Open, tmp_path: Path) -> None:
    page = visit(lived_in, "/runs")
    page.get_by_label("切换到中文").click()
    page.get_by_label("使用深色").click()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("运行记录")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
