"""Finding a skill on the page, what its page tells, and what happens when a part of the page cannot be fetched."""

from __future__ import annotations

import io
import re
import shutil
import signal
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]


def rows(page: Page) -> Locator:
    """The skills that the list shows."""
    return page.get_by_role("list", name="Skills").get_by_role("listitem")


def counts(page: Page, name: str) -> dict[str, int]:
    """The choices of a filter, each with how many skills it would leave."""
    texts = page.get_by_role("combobox", name=name, exact=True).locator("option").all_inner_texts()
    reported = [text.rpartition(" (") for text in texts if text.endswith(")")]
    return {label: int(count.rstrip(")")) for label, _, count in reported}


def test_filters_leave_as_many_skills_as_they_say_and_stand_in_the_address(site: Site, visit: Open) -> None:
    page = visit(site, "/skills")
    expect(rows(page).first).to_be_visible()
    everyone = rows(page).count()
    assert sum(counts(page, "Source").values()) == everyone
    tags = counts(page, "Tag")
    tag, many = next((tag, count) for tag, count in tags.items() if count < everyone)
    page.get_by_role("combobox", name="Tag", exact=True).select_option(label=f"{tag} ({many})")
    expect(rows(page)).to_have_count(many)
    assert "tag=" in page.url
    page.reload()
    expect(rows(page)).to_have_count(many)
    page.get_by_role("button", name="Clear all filters").click()
    expect(rows(page)).to_have_count(everyone)


def test_a_request_in_own_words_finds_the_skill_and_a_filter_narrows_it(site: Site, visit: Open) -> None:
    page = visit(site, "/skills")
    page.get_by_placeholder("Search by what should be done, in your own words").fill("how many words has this text")
    expect(rows(page).first).to_contain_text("text-statistics")
    expect(rows(page).first).to_contain_text("Matched")
    page.goto("/skills?q=how+many+words+has+this+text&source=installed")
    expect(page.get_by_text("No matching skills")).to_be_visible()
    page.goto("/skills?q=zzzz+qqqq")
    expect(page.get_by_text("No matching skills")).to_be_visible()


def test_the_filters_of_a_search_are_on_one_line_and_taken_back_with_one_click(site: Site, visit: Open) -> None:
    page = visit(site, "/skills?q=text&source=config")
    page.set_viewport_size({"width": 1280, "height": 800})
    filters = page.get_by_role("main").get_by_role("combobox")
    expect(filters).to_have_count(6)
    assert len({one.bounding_box()["y"] for one in filters.all()}) == 1  # type: ignore[index] # each is drawn
    page.get_by_role("button", name="Clear all filters").click()
    expect(page).to_have_url(re.compile(r"/skills\?q=text$"))


def test_matches_that_are_less_sure_are_left_out_where_that_is_chosen(site: Site, visit: Open) -> None:
    asked = "how many words has this text"
    reported = site.ask("GET", f"/api/v1/catalog/search?limit=100&q={asked.replace(' ', '+')}")["data"]
    sure = [one["skill"]["name"] for one in reported if one["confidence"] >= 0.5]
    assert 0 < len(sure) < len(reported)
    page = visit(site, f"/skills?q={asked.replace(' ', '+')}")
    expect(rows(page)).to_have_count(len(reported))
    page.get_by_role("combobox", name="Confidence").select_option("0.5")
    expect(rows(page)).to_have_count(len(sure))
    assert "least=0.5" in page.url
    page.reload()
    expect(rows(page)).to_have_count(len(sure))
    page.get_by_role("button", name="Clear all filters").click()
    expect(rows(page)).to_have_count(len(reported))


def names(page: Page) -> list[str]:
    """What the skills of the list are called, from the top."""
    return [link.inner_text().splitlines()[0].partition(" · ")[0] for link in rows(page).get_by_role("link").all()]


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_say_what_skills_cost_and_when_they_were_used_in_the_order_that_is_chosen(
    site: Site, visit: Open, uncut: Callable[[Page], None], readable: Callable[[Page], None], width: int
) -> None:
    site.ask("POST", "/api/v1/runs", {"skill": "text-statistics", "parameters": {"text": "Some words."}})
    page = visit(site, "/skills", width=width)
    expect(rows(page).first).to_be_visible()
    everyone = names(page)
    assert everyone == sorted(everyone, key=str.casefold)
    order = page.get_by_role("combobox", name="Sort by")
    order.select_option("used")
    expect(rows(page).first).to_contain_text("text-statistics")
    expect(rows(page).first).to_contain_text("last used today")
    expect(rows(page).nth(1)).to_contain_text("no usage in the last year")
    expect(rows(page).first.get_by_text("Script", exact=True)).to_be_visible()
    expect(rows(page).first.get_by_text("tokens").filter(visible=True)).to_be_visible()
    assert "sort=used" in page.url
    page.reload()
    expect(order).to_have_value("used")
    order.select_option("tokens")
    reported = {one["id"]: one for one in site.ask("GET", "/api/v1/catalog?limit=100")["data"]}
    most = max(reported.values(), key=lambda one: one["instruction_tokens"])
    expect(rows(page).first).to_contain_text(most["name"])
    with page.expect_response("**/api/v1/catalog?sort=risk*"):
        order.select_option("risk")
    expect(page.get_by_text("not scanned yet")).to_have_count(0, timeout=60_000)
    page.wait_for_load_state("networkidle")
    assert sorted(names(page), key=str.casefold) == everyone
    uncut(page)
    readable(page)


_DESCRIPTION = "Does so many things that its description is cut: " + "one after another, " * 20
_LONG = {
    "a-skill-with-a-name-that-is-as-long-as-names-of-skills-may-be-ok": "version: 2026.11.24-nightly\nentry: ./run.py",
    "only-people-may-call-this-one": "disable-model-invocation: true",
    "broken": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("width", "language", "scheme"), [(1280, "en-US", "light"), (360, "en-US", "dark"), (360, "zh-CN", "light")]
)
def test_whatever_a_skill_says_of_itself_no_text_of_its_card_is_cut_and_phones_show_its_marks(
    site: Site, visit: Open, uncut: Callable[[Page], None], width: int, language: str, scheme: str
) -> None:
    for name, header in _LONG.items():
        folder = site.project / "skills" / name
        folder.mkdir(exist_ok=True)
        (folder / "run.py").write_text("def execute(parameters): return 1\n", "utf-8")
        said = f"description: {_DESCRIPTION}\n{header}\n---\nDo." if header else "---"
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{said}\n", "utf-8")
    site.ask("POST", "/api/v1/catalog/refresh")
    try:
        page = visit(site, "/skills", width=width, language=language, scheme=scheme)
        listed = page.get_by_role("list", name=re.compile("Skills|技能")).get_by_role("listitem")
        for name in _LONG:
            card = listed.filter(has_text=name)
            expect(card).to_have_count(1)
            expect(card.get_by_text(re.compile("^(Configured|配置)$"))).to_be_visible()
        expect(listed.filter(has_text="only-people").get_by_text(re.compile("People only|仅供人使用"))).to_be_visible()
        expect(listed.filter(has_text="broken").get_by_text(re.compile("^(Broken|已损坏)$"))).to_be_visible()
        page.wait_for_load_state("networkidle")
        heights = listed.evaluate_all("(cards) => cards.map((one) => [one.clientHeight, one.firstElementChild.scrollHeight])")
        assert len(heights) > 10
        assert all(inside <= card for card, inside in heights), heights
        uncut(page)
        page.goto("/skills?source=config&state=broken&starred=true&collection=one+with+a+rather+long+name&sort=risk")
        page.wait_for_load_state("networkidle")
        uncut(page)
    finally:
        for name in _LONG:
            shutil.rmtree(site.project / "skills" / name)
        site.ask("POST", "/api/v1/catalog/refresh")


def test_a_skill_without_tests_or_prompts_says_what_to_add(site: Site, visit: Open) -> None:
    bare = site.project / "skills/bare"
    bare.mkdir()
    (bare / "SKILL.md").write_text("---\nname: bare\ndescription: Has nothing.\n---\nDo.\n", "utf-8")
    site.ask("POST", "/api/v1/catalog/refresh")
    page = visit(site, "/skills/config:bare?tab=tests")
    expect(page.get_by_text("No tests", exact=True)).to_be_visible()
    expect(page.get_by_text("tests/examples.json")).to_be_visible()
    expect(page.get_by_role("button", name="Run the tests")).to_have_count(0)
    shutil.rmtree(bare)
    site.ask("POST", "/api/v1/catalog/refresh")
    page.goto("/skills/config:csv-summary?tab=triggers")
    expect(page.get_by_text("No prompts", exact=True)).to_be_visible()
    expect(page.get_by_text("evals/triggers.json")).to_be_visible()
    expect(page.get_by_role("button", name="Test the prompts")).to_have_count(0)
    page.goto("/skills/config:csv-summary?tab=tests")
    expect(page.get_by_role("button", name="Run the tests")).to_be_visible()


def test_one_chats_with_an_agent_from_its_page_which_shows_what_is_left_of_its_budget(site: Site, visit: Open) -> None:
    made = site.ask(
        "POST", "/api/v1/agents", {"name": "Editor", "system_prompt": "You edit.", "settings": {"index_tokens": 8000}}
    )
    page = visit(site, f"/agents/{made['data']['id']}")
    bar = page.get_by_test_id("budget")
    expect(bar).to_be_visible()
    filled = bar.evaluate("(bar) => [...bar.children].reduce((sum, part) => sum + part.clientWidth, 0) / bar.clientWidth")
    assert 0 < filled < 0.5
    page.get_by_role("link", name="Start chat").click()
    expect(page.get_by_role("combobox", name="Agent")).to_have_value("Editor")


def test_a_star_is_kept_by_the_server_on_the_row_and_on_the_page_of_the_skill(site: Site, visit: Open) -> None:
    page = visit(site, "/skills")
    row = rows(page).filter(has_text="csv-summary")
    row.get_by_role("button", name="Star csv-summary").click()
    expect(row.get_by_role("button", name="Remove the star of csv-summary")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Starred", exact=True).click()
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("starred=true"))
    assert site.ask("GET", "/api/v1/catalog/stars")["data"] == ["config:csv-summary"]
    row.get_by_role("link").click()
    with page.expect_response("**/api/v1/catalog/stars"):
        page.get_by_role("button", name="Remove the star of csv-summary").click()
    expect(page.get_by_role("button", name="Star csv-summary")).to_be_visible()
    other = visit(site, "/skills?starred=true", width=390, language="zh-CN", scheme="dark")
    expect(other.get_by_text("你还没有收藏技能")).to_be_visible()


def test_searches_and_collections_are_saved_and_found_again(
    site: Site, visit: Open, uncut: Callable[[Page], None], readable: Callable[[Page], None]
) -> None:
    page = visit(site, "/skills/config:csv-summary", width=390)
    line = [page.get_by_role("link", name="Try in chat"), page.get_by_role("button", name="More actions")]
    expect(line[1]).to_be_visible()
    link, more = ((one.bounding_box() or {})["y"] for one in line)
    assert abs(link - more) < 18, "what can be done with a skill stands in one line"  # half the height of a button
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Add to a collection").click()
    window = page.get_by_role("dialog")
    window.get_by_role("textbox", name="Name of a new collection").fill("Tables <b>of</b> all kinds")
    window.get_by_role("button", name="Add", exact=True).click()
    expect(window.get_by_role("checkbox", name="Tables <b>of</b> all kinds")).to_be_checked()
    readable(page)
    page.goto("/skills?q=how+many+words&sort=tokens")
    page.get_by_role("button", name="Saved", exact=True).click()
    page.get_by_role("textbox", name="Name of this search").fill("Long texts")
    page.get_by_role("button", name="Save this search").click()
    expect(page.get_by_role("list", name="Saved searches").get_by_role("link")).to_have_text("Long texts")
    uncut(page)
    readable(page)
    page.get_by_role("list", name="Collections").get_by_role("link").click()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("combobox", name="Collection")).to_have_value("Tables <b>of</b> all kinds")
    expect(page.get_by_role("searchbox")).to_have_value("")
    other = visit(site, "/skills")
    other.get_by_role("button", name="Saved", exact=True).click()
    other.get_by_role("link", name="Long texts").click()
    expect(other.get_by_role("searchbox")).to_have_value("how many words")
    expect(other.get_by_role("combobox", name="Sort by")).to_have_value("tokens")
    other.get_by_role("button", name="Saved", exact=True).click()
    other.get_by_role("button", name="Delete the search Long texts").click()
    expect(other.get_by_role("link", name="Long texts")).to_have_count(0)
    other.get_by_role("button", name=re.compile("^Delete the collection Tables")).click()
    expect(other.get_by_text("Nothing saved yet")).to_be_visible()
    assert site.ask("GET", "/api/v1/catalog/collections")["data"] == []


def test_the_page_of_a_skill_tells_what_is_known_about_it_and_its_tags_lead_on(site: Site, visit: Open) -> None:
    reported = site.ask("GET", "/api/v1/catalog/skill?skill=text-statistics")["data"]
    page = visit(site, "/skills/config:text-statistics?tab=about")
    aside = page.get_by_role("complementary").filter(has_text="Digest")
    for fact in (reported["id"], reported["kind"], reported["digest"], reported["directory"]):
        expect(aside.get_by_text(fact, exact=True).first).to_be_visible()
    aside.get_by_role("link", name=reported["tags"][0], exact=True).click()
    expect(page.get_by_role("combobox", name="Tag", exact=True)).to_have_value(reported["tags"][0])
    expect(rows(page).filter(has_text="text-statistics")).to_have_count(1)


def tidy() -> bytes:
    """The archive of a skill with a category and a tag."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(
            "tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up.\ncategory: office\ntags: [forms]\n---\nDo.\n"
        )
    return stream.getvalue()


def test_what_is_shown_of_an_installed_skill_is_edited_and_taken_back(site: Site, visit: Open) -> None:
    body = b"--b\r\nContent-Disposition: form-data; name=file; filename=tidy.zip\r\n\r\n" + tidy() + b"\r\n--b--\r\n"
    site.ask("POST", "/api/v1/skill-definitions/upload-create", raw=body, media="multipart/form-data; boundary=b")
    page = visit(site, "/skills/installed:tidy?tab=about")
    shown = page.get_by_role("region", name="Registry listing")
    expect(shown.get_by_text("office").first).to_be_visible()
    shown.get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog")
    form.get_by_role("textbox", name="Category").fill("papers")
    form.get_by_role("combobox", name="Tags").fill("desk")
    form.get_by_role("combobox", name="Tags").press("Enter")
    form.get_by_role("textbox", name="Homepage").fill("javascript:alert(1)")
    page.watch.forgive("status of 400")  # type: ignore[attr-defined] # it is refused
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("not the address of a page")
    form.get_by_role("textbox", name="Homepage").fill("https://example.org/tidy")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(shown.get_by_text("papers").first).to_be_visible()
    expect(shown.get_by_text("edited", exact=True)).to_have_count(3)
    expect(shown.get_by_role("link", name="https://example.org/tidy")).to_be_visible()
    made = site.ask("GET", "/api/v1/skill-definitions/tidy")["data"]
    assert (made["category"], made["tags"]) == ("papers", ["forms", "desk"])
    shown.get_by_role("button", name="Edit").click()
    form.get_by_role("button", name="Reset to SKILL.md").first.click()
    form.get_by_role("button", name="Save").click()
    expect(shown.get_by_text("office").first).to_be_visible()


def test_a_page_that_was_never_loaded_says_that_the_server_is_gone_and_comes_when_it_is_back(site: Site, visit: Open) -> None:
    page = visit(site, "/skills", fresh=True)
    page.watch.forgive(r"ERR_CONNECTION|Failed to load resource|error: Problem|preload CSS")  # type: ignore[attr-defined]
    expect(rows(page).first).to_be_visible()
    site.stop(signal.SIGKILL)
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.get_by_role("alert").get_by_text("The server does not respond")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("link", name="Skills", exact=True)).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert").get_by_text("The server does not respond")).to_be_visible()
    site.start()
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible(timeout=30_000)


def test_a_page_whose_parts_are_of_an_older_version_says_so(site: Site, visit: Open) -> None:
    page = visit(site, "/skills", fresh=True)
    page.watch.forgive("Failed to load resource|error: Problem|preload CSS")  # type: ignore[attr-defined]
    page.route("**/MemoryPage-*", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.get_by_text("A newer version of this page is available")).to_be_visible()
    page.unroute("**/MemoryPage-*")
    page.get_by_role("button", name="Reload the page").click()
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible()


def test_a_list_is_where_it_was_after_a_reload_and_on_the_way_back(site: Site, visit: Open) -> None:
    page = visit(site, "/skills")
    page.set_viewport_size({"width": 1280, "height": 420})
    rows = page.get_by_role("list", name="Skills").get_by_role("link")
    expect(rows.first).to_be_visible()
    page.mouse.wheel(0, 500)
    page.wait_for_function("() => window.scrollY === 500")
    page.reload()
    page.wait_for_function("() => window.scrollY === 500")
    page.locator("main a[href*='/skills/']:visible").filter(has_text="tokens listed").nth(5).click()
    expect(page.get_by_role("tab", name="Overview")).to_be_visible()
    page.go_back()
    page.wait_for_function("() => window.scrollY > 300")


def test_what_is_typed_before_the_palette_has_come_is_in_it(site: Site, visit: Open) -> None:
    held: list[Route] = []
    page = visit(site, "/healthz", fresh=True)
    page.route("**/Palette-*.js", lambda route: held.append(route))  # a method of a list takes no marks
    page.goto("/install")
    field = page.get_by_role("main").get_by_role("textbox").first
    field.focus()
    page.keyboard.press("Control+k")
    page.keyboard.type("texx")
    page.keyboard.press("Backspace")
    page.unroute("**/Palette-*.js")  # which lets them through
    page.keyboard.type("t-stat")
    palette = page.get_by_role("dialog")
    expect(palette.get_by_role("textbox")).to_have_value("text-stat")
    expect(palette.get_by_text("text-statistics").first).to_be_visible()
    expect(field).to_have_value("")
