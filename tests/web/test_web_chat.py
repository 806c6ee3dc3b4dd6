"""The chat page: a model that uses skills, approvals, files, what was said in other words, and a server that dies."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Error, Locator, Page, Route, expect
from scripted_models import Call, Fail, Hold, Say, ScriptedModels, Seen

expect.set_options(timeout=20_000)  # the first message of a server loads what speaks to models
Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]

CHAT = "/api/v1/chat"
MODEL = "openai-chat:gpt-5"
FORM = b"%PDF-1.4 << /AcroForm << /Fields [ << /T (name) >> << /T (date) >> ] >> >>"
GUIDE = "# Forms\n\nRun scripts/check.py <file.pdf> first.\n"
CHECK = """\
import sys
print("looking at", sys.argv[1], flush=True)
data = open(sys.argv[1], "rb").read().decode()
names = ", ".join(part.split(")")[0] for part in data.split("/T (")[1:])
open("fields.txt", "w").write(names)
open("started.txt", "a").write("once ")
print("fields:", names)
"""
STEPS = """\
import time
import skillyard_sdk as sdk
def execute(parameters):
    with sdk.step("look around"):
        pass
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def skills(models: ScriptedModels, shared_site: Site) -> Path:
    """The skills of a site that was started after its model: those of the examples and two more."""
    slow: Path = shared_site.project / "skills/slow"
    (slow / "scripts").mkdir(parents=True)
    (slow / "SKILL.md").write_text("---\nname: slow\ndescription: Takes its time. Use when waiting is tried.\n---\n# Slow\n")
    (slow / "scripts/execute.py").write_text(STEPS)
    pdf = slow.with_name("pdf-forms")
    (pdf / "scripts").mkdir(parents=True)
    header = "---\nname: pdf-forms\ndescription: Reads PDF forms and fills them in. Use when a PDF form is mentioned.\n---\n"
    (pdf / "SKILL.md").write_text(f"{header}# PDF forms\n\nTo fill in a form, read FORMS.md and do what it says.\n")
    (pdf / "FORMS.md").write_text(GUIDE)
    (pdf / "scripts/check.py").write_text(CHECK)
    shared_site.ask("POST", "/api/v1/catalog/refresh")
    return slow.parent


@pytest.fixture
def pdf(skills: Path) -> Iterator[Path]:
    """A skill of the structure that people publish: a guide for forms beside SKILL.md, and a script."""
    yield skills / "pdf-forms"
    (skills / "pdf-forms/FORMS.md").write_text(GUIDE)


@pytest.fixture
def talk(models: ScriptedModels, skills: Path, site: Site) -> Iterator[Site]:
    """A site without conversations and agents, with a scripted model and a skill for forms."""
    models.reset()
    site.clear(f"{CHAT}/conversations", "/api/v1/agents")
    yield site
    assert models.faults == []


def begin(site: Site, **body: Any) -> str:
    return str(site.ask("POST", f"{CHAT}/conversations", {"model": MODEL, **body})["data"]["id"])


def ask_first(site: Site) -> str:
    return begin(site, settings={"permissions": {"pdf-*": "ask"}})


def write(page: Page, text: str) -> None:
    field = page.get_by_label("Write a message")
    field.fill(text)
    field.press("Enter")


def turn(page: Page, number: int = 1) -> Locator:
    return page.get_by_role("article", name=f"Turn {number}", exact=True)


def call(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(name))


@pytest.mark.row("003-8", "003-9", "003-11", "003-18")
def test_a_form_is_filled_in_after_an_approval(
    talk: Site, models: ScriptedModels, visit: Open, readable: Callable[[Page], None], uncut: Callable[[Page], None]
) -> None:
    models.script(
        Call("skill", {"skill": "pdf-forms"}),
        Call("read_skill_file", {"skill": "pdf-forms", "file_path": "FORMS.md"}),
        [Say("I check the form. "), Call("run_skill", {"skill": "pdf-forms", "arguments": ["form.pdf"]})],
        Say("The form has **two** fields: name and date."),
    )
    page = visit(talk, "/chat", width=1440)
    page.get_by_placeholder("openai:gpt-5").fill(MODEL)
    page.get_by_role("button", name="More settings").click()
    page.get_by_label("Ask me before a skill is used").check()
    page.locator("input[type=file]").first.set_input_files({"name": "form.pdf", "mimeType": "application/pdf", "buffer": FORM})
    expect(page.get_by_text("form.pdf")).to_be_visible()
    write(page, "Fill in this PDF form with my name, Ada")
    question = page.get_by_role("region", name="Allow the model to use pdf-forms?")
    expect(question).to_contain_text("Reads PDF forms and fills them in")
    expect(question).to_contain_text("has the script scripts/check.py")
    expect(question.get_by_role("treeitem", name="FORMS.md")).to_be_visible()
    assert "pdf-forms" in models.seen[0].system
    assert models.seen[0].user[-1].endswith('Given with this message:\n- "form.pdf"')
    question.get_by_label("Allow for longer").click()
    page.get_by_role("menuitem", name="Allow in this conversation").click()
    expect(turn(page).get_by_text("The form has two fields")).to_be_visible()
    expect(question).to_have_count(0)
    assert "Run scripts/check.py" in models.seen[2].last
    assert "fields: name, date" in models.seen[3].last
    for name in ("Load pdf-forms", "Read FORMS.md of pdf-forms", "Run pdf-forms · form.pdf"):
        expect(call(page, name)).to_contain_text("tokens")
    expect(turn(page).get_by_text("Wrote fields.txt")).to_be_visible()
    turn(page).get_by_role("button", name="Timeline").click()
    timeline = turn(page).get_by_role("figure", name="Timeline")
    spans = timeline.get_by_role("listitem")
    expect(spans.filter(has=page.get_by_role("img", name="Model"))).to_have_count(4)
    expect(spans.filter(has=page.get_by_role("img", name="Tool"))).to_have_count(3)
    expect(spans.filter(has_text="Waiting for approval: skill")).to_have_count(1)
    spans.filter(has=page.get_by_role("img", name="Tool")).first.get_by_role("button").click()
    expect(timeline.get_by_text("of its result go to the model")).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 860})
    readable(page)
    uncut(page)
    timeline.get_by_role("button", name="Show as a table").click()
    expect(timeline.get_by_role("row").filter(has_text="Script")).to_contain_text("pdf-forms")
    page.set_viewport_size({"width": 1440, "height": 860})
    page.get_by_role("tab", name="Usage").click()
    trail = page.get_by_role("tabpanel", name="Usage")
    for step in ("Offered 11 skills", "Loaded pdf-forms", "Read pdf-forms", "Run pdf-forms", "Outcome pdf-forms"):
        expect(trail).to_contain_text(step)
    page.get_by_role("tab", name="Files (3)").click()
    page.get_by_role("treeitem", name="fields.txt").click()
    expect(page.get_by_role("dialog").get_by_text("name, date")).to_be_visible()
    page.keyboard.press("Escape")
    call(page, "Run pdf-forms").click()
    expect(page.get_by_role("region", name="Output", exact=True)).to_contain_text("looking at form.pdf")
    page.get_by_role("link", name="Open the run").last.click()
    expect(page).to_have_url(re.compile("/runs/run_"))
    expect(page.get_by_role("log")).to_contain_text("fields: name, date")
    page.goto("/insights?unused=true")  # what was offered and never used leads to its prompts and a better description
    page.get_by_role("link", name=re.compile("^Suggested changes to")).first.click()
    expect(page).to_have_url(re.compile("tab=triggers"))
    expect(page.get_by_role("button", name="Test the prompts")).to_be_visible()


def test_the_steps_of_a_script_are_seen_while_it_runs(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Call("run_skill", {"skill": "slow"}), Say("Done."))
    page = visit(talk, f"/chat/{begin(talk)}", width=1440)
    write(page, "Wait for it")
    going = call(page, "Run slow")
    expect(going).to_contain_text("look around")
    going.click()
    expect(turn(page).get_by_role("list").get_by_role("button", name=re.compile("look around"))).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(turn(page)).to_contain_text("You stopped this answer")


@pytest.mark.row("003-18")
def test_small_talk_reads_no_skill(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Say("Hello Ada, how are you?"))
    page = visit(talk, f"/chat/{begin(talk)}", width=1440)
    write(page, "Hello!")
    expect(turn(page).get_by_text("Hello Ada, how are you?")).to_be_visible()
    page.get_by_role("tab", name="Usage").click()
    expect(page.get_by_role("tabpanel", name="Usage")).to_contain_text("Offered 11 skills")
    expect(page.get_by_role("tabpanel", name="Usage")).not_to_contain_text("Loaded")
    assert models.seen[0].calls == ()
    page.get_by_role("link", name="Skill usage").click()
    row = page.get_by_role("row", name=re.compile("pdf-forms"))
    expect(row).to_contain_text("1")
    expect(row).not_to_contain_text("never used")  # one conversation says nothing


def test_a_conversation_works_in_a_folder_of_this_machine(
    talk: Site, models: ScriptedModels, visit: Open, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/notes.txt").write_text("one fish\n")
    models.script(Say("There is a file."))
    page = visit(talk, "/chat", width=1440)
    page.watch.forgive(r"status of 404")  # type: ignore[attr-defined]
    page.get_by_placeholder("openai:gpt-5").fill(MODEL)
    page.get_by_label("Folder on this machine").fill(str(tmp_path / "missing"))
    write(page, "What is here?")
    expect(page.get_by_text("there is no folder")).to_be_visible()
    page.get_by_label("Folder on this machine").fill(str(tmp_path / "project"))
    write(page, "What is here?")
    expect(turn(page).get_by_text("There is a file.")).to_be_visible()
    expect(page.get_by_role("treeitem", name="notes.txt")).to_be_visible()
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_role("tabpanel", name="Settings")).to_contain_text(str(tmp_path / "project"))


@pytest.mark.row("001-18")
def test_calls_about_one_skill_are_refused_together_with_a_reason(talk: Site, models: ScriptedModels, visit: Open) -> None:
    both = [Call("skill", {"skill": "pdf-forms"}), Call("run_skill", {"skill": "pdf-forms", "arguments": ["form.pdf"]})]
    models.script(both, Say("Then I do it by hand."))
    page = visit(talk, f"/chat/{ask_first(talk)}")
    write(page, "Fill in the form")
    question = page.get_by_role("region", name="Allow the model to use pdf-forms?")
    expect(question).to_contain_text("2 calls are waiting for this answer")
    question.get_by_label("Reason for refusing").fill("not on a Friday")
    question.get_by_role("button", name="Refuse").click()
    expect(turn(page).get_by_text("Then I do it by hand.")).to_be_visible()
    expect(turn(page).get_by_text("refused")).to_have_count(2)
    assert [text.count("was not approved: not on a Friday") for _, text in models.seen[-1].results] == [1, 1]


def test_an_answer_is_stopped_tried_again_and_asked_for_in_other_words(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Hold("Once upon a time"), Say("The end."), Say("A short story."), Say("Another one."))
    page = visit(talk, f"/chat/{begin(talk)}")
    write(page, "A story")
    expect(turn(page).get_by_text("Once upon a time")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(turn(page).get_by_text("You stopped this answer")).to_be_visible()
    models.go_on.set()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("The end.")).to_be_visible()
    expect(page.get_by_text("Once upon a time")).to_have_count(0)
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("A short story")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_text("A short story.")).to_be_visible()
    expect(page.get_by_text("The end.")).to_have_count(0)
    assert models.seen[-1].user == ("A short story",)
    write(page, "Another")
    expect(page.get_by_text("Another one.")).to_be_visible()
    assert models.seen[-1].user == ("A short story", "Another")


def test_what_is_entered_while_an_answer_comes_is_sent_after_it(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Hold("Once upon a time"), Say("Nine."))
    page = visit(talk, f"/chat/{begin(talk)}")
    write(page, "A story")
    expect(turn(page).get_by_text("Once upon a time")).to_be_visible()
    write(page, "How many planets?")
    expect(page.get_by_text("Sent when the answer is complete")).to_be_visible()
    models.go_on.set()
    expect(page.get_by_text("Nine.")).to_be_visible()
    expect(page.get_by_label("Write a message")).to_have_value("")
    assert models.seen[-1].user == ("A story", "How many planets?")


def test_conversations_are_found_named_and_deleted(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Say("Water at 75 degrees."), Say("Nine."))
    page = visit(talk, f"/chat/{begin(talk)}", width=1440)
    write(page, "How is green tea made?")
    expect(page.get_by_text("Water at 75 degrees.")).to_be_visible()
    page.get_by_role("link", name="New conversation").click()
    page.get_by_placeholder("openai:gpt-5").fill(MODEL)
    write(page, "How many planets?")
    expect(page.get_by_text("Nine.")).to_be_visible()
    listed = page.get_by_role("navigation", name="Conversations")
    expect(listed.get_by_role("link")).to_have_text(["How many planets?", "How is green tea made?"])
    page.get_by_label("Find a conversation").fill("75 DEGREES")
    expect(listed.get_by_role("link")).to_have_text(["How is green tea made?"])
    page.get_by_label("Actions for How is green tea made?").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Rename conversation").fill("Tea")
    page.get_by_role("button", name="Save").click()
    expect(listed.get_by_role("link")).to_have_text(["Tea"])
    page.get_by_label("Find a conversation").fill("")
    expect(listed.get_by_role("link")).to_have_text(["How many planets?", "Tea"])
    page.get_by_role("main").get_by_label("Actions for How many planets?").last.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(listed.get_by_role("link")).to_have_text(["Tea"])
    expect(page).to_have_url(re.compile("/chat$"))


def test_a_skill_is_started_by_its_name_with_the_keyboard(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Say("Which form?"))
    page = visit(talk, f"/chat/{begin(talk)}")
    page.watch.forgive(r"status of 404")  # type: ignore[attr-defined]
    field = page.get_by_label("Write a message")
    field.fill("/form")
    expect(page.get_by_role("option", name=re.compile("pdf-forms"))).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    expect(field).to_have_value("/pdf-forms ")
    field.press_sequentially("the first page")
    field.press("Shift+Enter")
    field.press_sequentially("please")
    field.press("Enter")
    expect(page.get_by_text("Which form?")).to_be_visible()
    assert "The user starts the skill /pdf-forms with: the first page\nplease" in models.seen[0].said
    write(page, "/nothing-of-this-name now")
    expect(page.get_by_role("alert")).to_contain_text("There is no skill /nothing-of-this-name")
    expect(field).to_have_value("/nothing-of-this-name now")


def test_files_are_dropped_and_pasted_into_a_conversation(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Say("Two files."))
    page = visit(talk, f"/chat/{begin(talk)}", width=1440)
    give = """(field, [kind, name]) => {
        const held = new DataTransfer();
        held.items.add(new File(["some words"], name, { type: name.endsWith("png") ? "image/png" : "text/plain" }));
        const event = kind === "paste"
            ? new ClipboardEvent("paste", { clipboardData: held, bubbles: true, cancelable: true })
            : new DragEvent(kind, { dataTransfer: held, bubbles: true, cancelable: true });
        field.dispatchEvent(event);
    }"""
    field = page.get_by_label("Write a message")
    field.evaluate(give, ["dragenter", "a.txt"])
    expect(page.get_by_text("Drop the files to add them")).to_be_visible()
    field.evaluate(give, ["drop", "notes.txt"])
    field.evaluate(give, ["paste", "image.png"])
    expect(page.get_by_text(re.compile(r"pasted-\d{14}\.png"))).to_be_visible()
    write(page, "What did I give you?")
    expect(page.get_by_text("Two files.")).to_be_visible()
    assert '- "notes.txt"\n- "pasted-' in models.seen[0].said
    expect(turn(page).get_by_role("link", name="notes.txt")).to_be_visible()
    page.get_by_role("tab", name="Files (2)").click()
    page.get_by_role("treeitem", name="notes.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete notes.txt?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("tab", name="Files (1)")).to_be_visible()


def test_a_model_without_a_key_and_one_that_fails_say_what_to_do(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Fail(401, "no such key"), Say("Better now."))
    page = visit(talk, "/chat", width=1440)
    page.watch.forgive(r"status of 400")  # type: ignore[attr-defined]
    page.get_by_placeholder("openai:gpt-5").fill("deepseek:deepseek-chat")
    write(page, "Hello")
    expect(page.get_by_role("alert")).to_contain_text("needs DEEPSEEK_API_KEY, which is not set")
    expect(page.get_by_role("alert")).to_contain_text("Set DEEPSEEK_API_KEY in the environment")
    expect(page.get_by_label("Write a message")).to_have_value("Hello")
    page.get_by_placeholder("openai:gpt-5").fill("openai-chat:gpt-5")
    page.get_by_label("Write a message").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The service of the model 'gpt-5' refuses the key (401)")
    expect(page.get_by_role("alert")).to_contain_text("The provider answered: no such key")
    page.get_by_role("button", name="Choose another model").click()
    page.get_by_role("tabpanel", name="Settings").get_by_placeholder("openai:gpt-5").fill("openai-chat:gpt-6")
    page.get_by_role("button", name="Use this model").click()
    expect(page.get_by_text("The next turn uses this model")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Better now.")).to_be_visible()
    assert models.seen[-1].model == "gpt-6"


def test_a_server_that_dies_in_a_turn_leaves_it_marked_and_does_nothing_twice(
    talk: Site, models: ScriptedModels, visit: Open
) -> None:
    models.script(
        Call("run_skill", {"skill": "pdf-forms", "arguments": ["form.pdf"]}), Hold("It has"), Say("It has two fields.")
    )
    before = len(talk.ask("GET", "/api/v1/runs?skill=pdf-forms")["data"])
    made = begin(talk)
    talk_file = f"{CHAT}/conversations/{made}/files"
    talk.ask("PUT", f"{talk_file}/form.pdf", raw=FORM, media="application/octet-stream")
    page = visit(talk, f"/chat/{made}")
    gone = r"ERR_|Failed to load resource|dynamically imported|preload CSS|^error: Problem"  # a part of the page is not fetched
    page.watch.forgive(gone)  # type: ignore[attr-defined]
    write(page, "Which fields are in form.pdf?")
    expect(turn(page).get_by_text("It has")).to_be_visible()
    talk.stop(signal.SIGKILL)
    expect(page.get_by_text("The server does not respond")).to_be_visible(timeout=15_000)
    models.go_on.set()
    talk.start()
    expect(page.get_by_text("The server stopped during this turn")).to_be_visible(timeout=30_000)
    expect(call(page, "Run pdf-forms")).to_be_visible()
    page.reload()
    expect(page.get_by_text("The server stopped during this turn")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("It has two fields.")).to_be_visible()
    assert len(talk.ask("GET", "/api/v1/runs?skill=pdf-forms")["data"]) == before + 1


@pytest.mark.row("001-18")
def test_what_was_allowed_for_a_conversation_holds_after_the_server_was_started_anew(
    talk: Site, models: ScriptedModels, visit: Open, pdf: Path
) -> None:
    read = Call("read_skill_file", {"skill": "pdf-forms", "file_path": "FORMS.md"})
    models.script(read, Say("First."), read, Say("Second."), read, Say("Third."))
    page = visit(talk, f"/chat/{ask_first(talk)}")
    page.watch.forgive(r"ERR_|Failed to load resource")  # type: ignore[attr-defined]
    write(page, "Read it")
    page.get_by_label("Allow for longer").click()
    page.get_by_role("menuitem", name="Allow in this conversation").click()
    expect(page.get_by_text("First.")).to_be_visible()
    talk.stop()
    talk.start()
    page.reload()
    write(page, "Read it again")
    expect(page.get_by_text("Second.")).to_be_visible()
    (pdf / "FORMS.md").write_text("# Forms\n\nAnother text.\n")
    write(page, "And once more")
    expect(page.get_by_role("region", name="Allow the model to use pdf-forms?")).to_be_visible()
    expect(turn(page, 3).get_by_text("the skill 'pdf-forms' has changed")).to_be_visible()
    page.get_by_role("button", name="Allow once").click()
    expect(page.get_by_text("Third.")).to_be_visible()


_HARM = (
    '<script>alert(1)</script><img src=x onerror="alert(2)"><iframe src="https://evil.example/"></iframe> '
    "[go](javascript:alert(3)) ![p](https://evil.example/p.png) \u202ereversed\u202c \x1b[31mred\x1b[0m \u200bhidden "
)


def test_a_hostile_model_is_bounded_and_shown_as_text(talk: Site, models: ScriptedModels, visit: Open) -> None:
    def answer(seen: Seen) -> list[Any]:
        if len(seen.calls) >= 50:
            return [Say(f"# {_HARM}\n\n{_HARM}\n\n```html\n{_HARM}\n```\n" + "x" * 60_000)]
        wild: list[Any] = [Call(f"tool_{number}", {"skill": _HARM, _HARM: [_HARM]}) for number in range(48)]
        return [Say(_HARM), Call("skill", {"skill": _HARM}), Call("skill", "{broken"), *wild]

    models.answer_with(answer)
    page = visit(talk, f"/chat/{begin(talk, title=_HARM)}", width=1440)
    write(page, _HARM)
    expect(page.get_by_role("button", name=re.compile("Show 2.,... more characters"))).to_be_visible(timeout=60_000)
    main = page.get_by_role("main")
    assert main.locator("script, iframe, img, svg[onload], [onerror]").count() == 0
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    folded = page.get_by_role("button", name="46 more calls")
    assert folded.count() == 1
    folded.click()
    page.get_by_role("button", name=re.compile("Load <script>")).first.click()
    expect(main.get_by_text("not run").first).to_be_visible()
    text = main.inner_text()
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "<script>alert(1)</script>" in text
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_what_the_history_was_put_into_is_reported(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.answer_with(lambda seen: Say("They spoke of tea." if "Summarise" in seen.said else "A long answer. " * 300))
    page = visit(talk, f"/chat/{begin(talk, settings={'history_tokens': 1000})}")
    for number in range(1, 5):
        write(page, f"Question {number}")
        expect(turn(page, number).get_by_role("button", name="Copy the answer")).to_be_visible()
    reported = page.get_by_text("the beginning of the conversation was summarised").first
    expect(reported).to_be_visible()
    page.get_by_text("Summary").first.click()
    expect(page.get_by_text("They spoke of tea.").first).to_be_visible()


def test_a_message_is_seen_although_an_older_answer_about_the_conversation_comes_later(
    talk: Site, models: ScriptedModels, visit: Open
) -> None:
    models.script(Say("Here."))
    made = begin(talk)
    page = visit(talk, "/chat")
    late: list[tuple[Route, APIResponse]] = []
    page.route(f"**/conversations/{made}?*", lambda route: route.continue_() if late else late.append((route, route.fetch())))
    page.goto(f"/chat/{made}")
    with page.expect_response(f"**/conversations/{made}/messages"):
        write(page, "Are you there?")
    route, answer = late[0]
    with suppress(Error):  # nobody waits for it any more
        route.fulfill(response=answer)
    expect(turn(page).get_by_text("Here.")).to_be_visible()


def test_a_long_conversation_shows_its_end_first(talk: Site, models: ScriptedModels, visit: Open) -> None:
    models.answer_with(lambda seen: Say(f"Answer to {seen.said}."))
    made = begin(talk)
    for number in range(1, 44):
        said = talk.ask("POST", f"{CHAT}/conversations/{made}/messages", {"text": f"number {number}"})["data"]["id"]
        talk.ask("POST", f"{CHAT}/conversations/{made}/turns/{said}/stop") if _over(talk, made, said) else None
    page = visit(talk, f"/chat/{made}")
    expect(page.get_by_text("Answer to number 43.")).to_be_in_viewport()
    expect(turn(page, 3)).to_have_count(0)
    assert page.evaluate("window.__shift") < 0.05
    page.get_by_role("button", name="Show 3 earlier").click()
    expect(turn(page, 1)).to_be_attached()


def _over(site: Site, conversation: str, turn_id: str) -> bool:
    """Wait until a turn has ended, by listening to it."""
    from urllib.request import urlopen

    with urlopen(f"{site.address}{CHAT}/conversations/{conversation}/turns/{turn_id}/events", timeout=60) as reported:
        return b'"end"' in reported.read()


def test_an_agent_is_chosen_for_a_conversation(talk: Site, models: ScriptedModels, visit: Open) -> None:
    agent = {"name": "Clerk", "system_prompt": "You fill in forms.", "model": MODEL, "skills": [{"skill": "pdf-forms"}]}
    talk.ask("POST", "/api/v1/agents", agent)
    models.script(Say("Which one?"))
    page = visit(talk, "/chat", width=1440)
    page.get_by_text("An agent", exact=True).click()
    page.get_by_label("Agent", exact=True).select_option("Clerk")
    write(page, "A form, please")
    expect(page.get_by_text("Which one?")).to_be_visible()
    assert "You fill in forms." in models.seen[0].system
    assert "text-statistics" not in json.dumps(models.seen[0].body)
    expect(page.get_by_text(f"Clerk · {MODEL}")).to_be_visible()
