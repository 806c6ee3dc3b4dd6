"""Finding a skill on the page, what its page tells, and what happens when a part of the page cannot be fetched."""

from __future__ import annotations

import io
import signal
import zipfile
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]


def rows(page: Page) -> Locator:
    """The skills that the list shows."""
    return page.get_by_role("list", name="Skills").get_by_role("listitem")


def counts(page: Page, name: str) -> dict[str, int]:
    """The choices of a filter, each with how many skills it would leave."""
    texts = page.get_by_role("combobox", name=name, exact=True).locator("option").all_inner_texts()
    told = [text.rpartition(" (") for text in texts if text.endswith(")")]
    return {label: int(count.rstrip(")")) for label, _, count in told}


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
    page.get_by_placeholder("What should be done? Say it in your own words.").fill("how many words has this text")
    expect(rows(page).first).to_contain_text("text-statistics")
    expect(rows(page).first).to_contain_text("Because of")
    page.goto("/skills?q=how+many+words+has+this+text&source=installed")
    expect(page.get_by_text("No skill fits")).to_be_visible()
    page.goto("/skills?q=zzzz+qqqq")
    expect(page.get_by_text("No skill fits")).to_be_visible()


def test_the_page_of_a_skill_tells_what_is_known_about_it_and_its_tags_lead_on(site: Site, visit: Open) -> None:
    told = site.ask("GET", "/api/v1/catalog/skill?skill=text-statistics")["data"]
    page = visit(site, "/skills/config:text-statistics?tab=about")
    aside = page.get_by_role("complementary").filter(has_text="Digest")
    for fact in (told["id"], told["kind"], told["digest"], told["directory"]):
        expect(aside.get_by_text(fact, exact=True).first).to_be_visible()
    aside.get_by_role("link", name=told["tags"][0], exact=True).click()
    expect(page.get_by_role("combobox", name="Tag", exact=True)).to_have_value(told["tags"][0])
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
    shown = page.get_by_role("region", name="In the registry")
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
    form.get_by_role("button", name="As SKILL.md says").first.click()
    form.get_by_role("button", name="Save").click()
    expect(shown.get_by_text("office").first).to_be_visible()


def test_a_page_that_was_never_loaded_says_that_the_server_is_gone_and_comes_when_it_is_back(site: Site, visit: Open) -> None:
    page = visit(site, "/skills", fresh=True)
    page.watch.forgive(r"ERR_CONNECTION|Failed to load resource|error: Problem|preload CSS")  # type: ignore[attr-defined]
    expect(rows(page).first).to_be_visible()
    site.stop(signal.SIGKILL)
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.get_by_role("alert").get_by_text("The server does not answer")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("link", name="Skills", exact=True)).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert").get_by_text("The server does not answer")).to_be_visible()
    site.start()
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible(timeout=30_000)


def test_a_page_whose_parts_are_of_an_older_version_says_so(site: Site, visit: Open) -> None:
    page = visit(site, "/skills", fresh=True)
    page.watch.forgive("Failed to load resource|error: Problem|preload CSS")  # type: ignore[attr-defined]
    page.route("**/MemoryPage-*", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.get_by_text("The server has a newer page")).to_be_visible()
    page.unroute("**/MemoryPage-*")
    page.get_by_role("button", name="Reload the page").click()
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible()
