"""The Run tab and the form for schedules: one script of several, files and arguments, and a look at what was made."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Locator, Page, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]

_HARM = "<script>alert(1)</script><img src=x onerror=alert(2)>"
_REPORT = f"""\
import json, struct, sys, zlib
from pathlib import Path
lines = Path(sys.argv[1]).read_text().splitlines()
Path("out").mkdir()
rows = "".join(f"| {{line}} |\\n" for line in lines)
Path("out/report.md").write_text("# Cities\\n\\n| city |\\n|---|\\n" + rows + {_HARM!r})
Path("out/page.html").write_text({_HARM!r})
Path("out/drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"/>')
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head, rows = struct.pack(">IIBBBBB", 40, 20, 8, 0, 0, 0, 0), zlib.compress(b"".join(b"\\0" + b"\\x80" * 40 for _ in range(20)))
data = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
Path("out/picture.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n" + data)
print("made of", len(lines), "lines", sys.argv[2:])
"""


@pytest.fixture(scope="module")
def reports(shared_site: Site) -> str:
    """The id of a skill with two scripts, of which none is its own."""
    folder: Path = shared_site.project / "skills/reports"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: reports\ndescription: Makes reports. Use when one is due.\n---\n# Reports\n")
    (folder / "scripts/report.py").write_text(_REPORT)
    (folder / "scripts/check.py").write_text("print('fine')\n")
    (folder / "scripts/as_pdf.py").write_text("import pypdf\n")
    shared_site.ask("POST", "/api/v1/catalog/refresh")
    return "config:reports"


def give(form: Page | Locator, name: str = "cities.txt", data: bytes = b"Oslo\nLima\n") -> None:
    """Add a file to a form."""
    form.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": data})


def choose(page: Page, form: Page | Locator, script: str) -> None:
    """Choose a script in the form."""
    form.get_by_role("combobox", name="Script").click()
    page.get_by_role("option", name=script).click()


def test_one_script_of_several_works_on_files_and_what_it_makes_is_looked_at(reports: str, site: Site, visit: Open) -> None:
    page = visit(site, f"/skills/{reports}?tab=run")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("combobox", name="Script")).to_have_attribute("aria-invalid", "true")
    missing = page.get_by_role("alert")
    expect(missing).to_contain_text("Not granted:pypdf")
    expect(missing.get_by_label("grants them with")).to_have_text("skillyard environment allow reports")
    choose(page, page, "scripts/report.py")
    give(page)
    page.get_by_label("Arguments").fill("cities.txt\n--title=a b")
    page.get_by_role("button", name="Run it").dblclick()
    made = page.get_by_role("region", name="Output files")
    expect(made.get_by_role("listitem")).to_have_count(4)
    expect(page.get_by_role("log")).to_contain_text("made of 2 lines ['--title=a b']")
    (run,) = site.ask("GET", "/api/v1/runs?skill=reports")["data"]
    known = site.ask("GET", f"/api/v1/runs/{run['run_id']}")["data"]
    assert (known["entry"], known["arguments"]) == ("scripts/report.py", ["cities.txt", "--title=a b"])

    window = page.get_by_role("dialog")
    made.get_by_role("button", name="out/report.md").click()
    expect(window.get_by_role("cell", name="Lima")).to_be_visible()
    window.get_by_text("Source", exact=True).click()
    expect(window.get_by_text(_HARM)).to_be_visible()
    for name, text in (("out/page.html", "onerror=alert(2)"), ("out/drawing.svg", "onload")):
        page.keyboard.press("Escape")
        expect(window).to_have_count(0)
        made.get_by_role("button", name=name).click()
        expect(window.get_by_role("region", name=name)).to_contain_text(text)
        assert window.locator("script, iframe, img, object, embed, svg[onload]").count() == 0
    page.keyboard.press("Escape")
    made.get_by_role("button", name="out/picture.png").click()
    expect(window.get_by_role("img", name="out/picture.png")).to_have_js_property("naturalWidth", 40)
    page.keyboard.press("Escape")
    with page.expect_download() as taken:
        made.get_by_role("button", name="Download all").click()
    with zipfile.ZipFile(io.BytesIO(taken.value.path().read_bytes())) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["out/drawing.svg", "out/page.html", "out/picture.png", "out/report.md"]


def test_what_few_runs_need_is_folded_away_and_checked_before_it_is_sent(reports: str, site: Site, visit: Open) -> None:
    page = visit(site, f"/skills/{reports}?tab=run")
    choose(page, page, "scripts/check.py")
    expect(page.get_by_label("Context")).to_be_hidden()
    page.get_by_role("button", name="More settings").click()
    page.get_by_label("Context").fill("[1]")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("Not valid JSON")).to_be_visible()
    page.get_by_label("Context").fill('{"locale": "de"}')
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("log")).to_contain_text("fine")
    (run, *_) = site.ask("GET", "/api/v1/runs?skill=reports")["data"]
    assert site.ask("GET", f"/api/v1/runs/{run['run_id']}")["data"]["context"]["locale"] == "de"


def test_a_schedule_gives_its_script_arguments_and_files(reports: str, site: Site, visit: Open) -> None:
    page = visit(site, f"/schedules?add={reports}")
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("cities")
    choose(page, form, "scripts/report.py")
    give(form)
    form.get_by_label("Arguments").fill("cities.txt")
    form.get_by_role("button", name="Add schedule").click()
    page.get_by_role("list", name="Schedules").get_by_role("link", name="cities").click()
    facts = page.get_by_role("region", name="Schedule", exact=True)
    expect(facts).to_contain_text(re.compile(r"scripts/report\.py.*cities\.txt.*cities\.txt", re.DOTALL))
    kept = site.ask("GET", "/api/v1/schedules/cities")["data"]
    assert (kept["entry"], kept["arguments"], kept["files"]) == ("scripts/report.py", ["cities.txt"], ["cities.txt"])


@pytest.fixture(scope="module")
def past(shared_site: Site, reports: str) -> list[str]:
    """Three runs of a schedule and one of nobody's, which failed; their ids, the newest first."""
    check = {"skill": reports, "entry": "scripts/check.py"}
    when = {"name": "every-year", "cron": "0 8 1 1 *", "arguments": ["--quiet"]}
    shared_site.ask("POST", "/api/v1/schedules", check | when)
    for _ in range(3):
        run = shared_site.ask("POST", "/api/v1/schedules/every-year/run")["data"]["run_id"]
        with urlopen(f"{shared_site.address}/api/v1/runs/{run}/events", timeout=60) as reported:
            assert b"event: end" in reported.read()
    given = {"skill": reports, "entry": "scripts/report.py", "arguments": ["missing.txt"], "parameters": {"city": "Lima"}}
    shared_site.ask("POST", "/api/v1/runs", given)
    return [run["run_id"] for run in shared_site.ask("GET", f"/api/v1/runs?skill={reports}&limit=4")["data"]]


@pytest.mark.parametrize(("width", "language"), [(1280, "en-US"), (390, "zh-CN")])
def test_runs_are_seen_over_time_and_those_of_a_schedule_together(
    past: list[str], reports: str, site: Site, visit: Open, uncut: Callable[[Page], None], width: int, language: str
) -> None:
    chinese = language == "zh-CN"
    page = visit(site, f"/runs?skill={reports}", width=width, language=language)
    listed = page.get_by_role("list", name="运行记录" if chinese else "Runs", exact=True)
    fold = listed.get_by_role("button", name="every-year")
    expect(listed.get_by_role("link", name=past[1])).to_have_count(0)
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    for run in past[1:]:
        expect(listed.get_by_role("link", name=run)).to_be_visible()
    page.reload()  # what is open is in the address
    expect(listed.get_by_role("link", name=past[1])).to_be_visible()
    fold.click()
    expect(listed.get_by_role("link", name=past[1])).to_have_count(0)
    page.get_by_role("switch", name="合并同一定时任务的运行" if chinese else "Group runs by schedule").click()
    expect(listed.get_by_role("link", name=past[1])).to_be_visible()
    expect(fold).to_have_count(0)

    chart = page.get_by_role("region", name="每天的运行结果" if chinese else "Outcomes by day")
    chart.get_by_role("button", name="显示为表格" if chinese else "Show as a table").click()
    cells = chart.get_by_role("row").last.get_by_role("cell")
    expect(cells.nth(1)).not_to_have_text("0")  # what failed
    chart.get_by_role("button", name="显示为图表" if chinese else "Show as a chart").click()
    uncut(page)
    bars = chart.get_by_role("list").get_by_role("link")
    expect(bars).to_have_count(14)
    bars.last.click()
    expect(page).to_have_url(re.compile(r"since=.*until="))
    expect(bars.last).to_have_attribute("aria-current", "page")
    expect(listed.get_by_role("link", name=past[1])).to_be_visible()
    bars.first.click()
    expect(page.get_by_text("没有匹配的运行" if chinese else "No matching runs")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_two_runs_are_compared_in_an_address(
    past: list[str],
    site: Site,
    visit: Open,
    readable: Callable[[Page], None],
    uncut: Callable[[Page], None],
    width: int,
    scheme: str,
) -> None:
    page = visit(site, f"/runs/{past[0]}", width=width, scheme=scheme)
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("region", name="Choose the second run").get_by_role("link", name=past[1]).click()
    ran = page.get_by_role("region", name="Execution")
    expect(ran.get_by_role("row", name="State")).to_contain_text(re.compile("Failed.*Succeeded"))
    expect(ran.get_by_role("row", name="Exit code (different)")).to_contain_text("different")
    expect(ran.get_by_role("row", name="Schedule (different)")).to_contain_text("every-year")
    expect(page.get_by_role("region", name="Input").get_by_role("row", name="city")).to_contain_text("Lima")
    limits = page.get_by_role("region", name="Limits")
    expect(limits.get_by_role("row").nth(1)).to_be_visible()
    readable(page)
    uncut(page)
    expect(page.locator("html")).to_have_js_property("scrollWidth", width)
    page.get_by_role("switch", name="Only differences").click()
    expect(limits).to_contain_text("No differences")
    page.get_by_role("button", name="Swap").click()
    expect(ran.get_by_role("row", name="State")).to_contain_text(re.compile("Succeeded.*Failed"))
    page.reload()
    expect(limits).to_contain_text("No differences")
    page.get_by_role("button", name="Choose another: First run").click()
    page.get_by_label("Run id").fill(past[2])
    page.get_by_role("button", name="Choose", exact=True).click()
    expect(page).to_have_url(re.compile(past[2]))
    expect(ran).to_be_visible()


_NOTICES = """() => {
  window.__shown = [];
  window.__asked = 0;
  window.Notification = class {
    static permission = localStorage.getItem("allowed") ?? "default";
    static requestPermission = async () => {
      window.__asked += 1;
      localStorage.setItem("allowed", "granted");
      return (Notification.permission = "granted");
    };
    constructor(title, { body }) {
      window.__shown.push([title, body]);
      window.__last = this;
    }
    close() {}
  };
}"""


@pytest.mark.parametrize(("width", "language"), [(1280, "en-US"), (390, "zh-CN")])
def test_a_browser_notifies_of_failures_when_it_was_asked_to(
    reports: str, site: Site, visit: Open, readable: Callable[[Page], None], width: int, language: str
) -> None:
    page = visit(site, "about:blank", width=width, language=language, fresh=True)
    page.clock.install()
    page.add_init_script(f"({_NOTICES})()")
    page.goto("/settings")
    chinese = language == "zh-CN"
    on = page.get_by_role("button", name="开启通知" if chinese else "Turn on notifications")
    expect(on).to_be_visible()
    assert page.evaluate("window.__asked") == 0  # never unasked
    on.click()
    choice = page.get_by_role("checkbox", name="有内容等待我审批" if chinese else "A request needs my approval")
    expect(choice).to_be_checked()
    assert page.evaluate("window.__shown.length") == 1
    readable(page)
    choice.uncheck()
    with page.expect_response("**/api/v1/runs?state=failed*"):  # else it could be taken for that of the next page
        page.reload()
    expect(choice).not_to_be_checked()
    with page.expect_response("**/api/v1/runs?state=failed*"):
        page.goto("/skills")  # where nothing else asks for failures
    given = {"skill": reports, "entry": "scripts/report.py", "arguments": ["missing.txt"]}
    run = site.ask("POST", "/api/v1/runs", given)["data"]["run_id"]
    deadline = time.monotonic() + 60
    while not page.evaluate("window.__shown.length") and time.monotonic() < deadline:
        page.clock.fast_forward(21_000)  # failures are asked for every twenty seconds
        page.wait_for_timeout(100)
    assert page.evaluate("window.__shown") == [["运行失败" if chinese else "A run failed", "reports"]]
    page.evaluate("window.__last.onclick()")
    expect(page).to_have_url(re.compile(run))
