"""The workspace of a conversation on the page: files, the terminal, what calls did, and questions about commands."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Locator, Page, expect
from scripted_models import Call, Say, ScriptedModels

expect.set_options(timeout=30_000)  # the first command of a server opens its session
Site = Any  # of conftest.py, which is no module to import from
Open = Callable[..., Page]
Check = Callable[[Page], None]

CHAT = "/api/v1/chat/conversations"
WIDE = 1440  # the panel has room beside the conversation
_HARM = '<script>alert(1)</script><img src=x onerror="alert(2)"><iframe src="https://evil.example/"></iframe>'
_ALERT = b"<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (app.alert\\(1\\)) >> >>"


@pytest.fixture
def work(models: ScriptedModels, shared_site: Site, site: Site) -> Iterator[Site]:
    """A site without conversations and agents."""
    models.reset()
    site.clear(CHAT, "/api/v1/agents")
    yield site
    assert models.faults == []


def begin(site: Site, **settings: Any) -> str:
    body = {"model": "openai-chat:gpt-5", "settings": settings}
    return str(site.ask("POST", CHAT, body)["data"]["id"])


def put(site: Site, conversation: str, name: str, data: bytes) -> None:
    site.ask("PUT", f"{CHAT}/{conversation}/files/{name}", raw=data, media="application/octet-stream")


def write(page: Page, text: str) -> None:
    field = page.get_by_label("Write a message")
    field.fill(text)
    field.press("Enter")


def card(page: Page, name: str) -> Locator:
    """The line of a call, opened."""
    line = page.get_by_role("button", name=name).first
    line.click()
    return line.locator("xpath=..")


def terminal(page: Page) -> Locator:
    page.get_by_role("tab", name="Terminal").click()
    return page.get_by_role("log", name="Commands and their output")


def pdf() -> bytes:
    """A document of one page that wants to run a script when it is opened."""
    body = b"BT /F1 24 Tf 72 700 Td (Hello page) Tj ET"
    objects = [
        _ALERT,
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(body), body),
    ]
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(data)
    return data + b"xref\n0 6\n0000000000 65535 f \n" + table + end


def test_what_the_model_does_is_seen_as_commands_changes_and_files(
    work: Site, models: ScriptedModels, visit: Open, readable: Check
) -> None:
    models.script(
        Call("bash", {"command": "mkdir -p out; cd out; echo city,days > table.csv; echo Oslo,3 >> table.csv; pwd"}),
        Call("file_write", {"file_path": "/workspace/notes.md", "content": "# Notes\n\n- one\n- two\n"}),
        Call("file_edit", {"file_path": "/workspace/notes.md", "old_string": "- one\n- two", "new_string": "- one\n- three"}),
        Call("code_run", {"language": "python", "code": "print(6 * 7)"}),
        Call("bash", {"command": "echo gone; exit 3"}),
        Say("It is in the table."),
    )
    page = visit(work, f"/chat/{begin(work)}", width=WIDE)
    write(page, "Make a table")
    expect(page.get_by_text("It is in the table.")).to_be_visible()
    opened = card(page, "$ mkdir -p out")
    expect(opened.get_by_role("region", name="Output")).to_have_text(re.compile("^/workspace/out$"))
    change = card(page, "Edit notes.md")
    expect(change.locator("[data-kind='-']")).to_have_text("- - two")
    expect(change.locator("[data-kind='+']")).to_have_text("+ - three")
    expect(card(page, "Run python").get_by_role("region", name="Output")).to_have_text(re.compile("42"))
    expect(card(page, "exit 3")).to_contain_text("exit code 3")
    expect(page.get_by_text("Wrote notes.md")).to_have_count(1)

    log = terminal(page)
    for text in ("mkdir -p out", "/workspace/out", "print(6 * 7)", "42", "exit code 3"):
        expect(log).to_contain_text(text)
    panel = page.get_by_role("tabpanel", name="Terminal")
    expect(panel.get_by_text("Session open")).to_be_visible()
    expect(panel).to_contain_text("Working folder /workspace/out")
    readable(page)
    panel.get_by_role("button", name="End the session").click()
    page.get_by_role("dialog").get_by_role("button", name="End the session").click()
    expect(panel.get_by_text("No session")).to_be_visible()

    page.get_by_role("tab", name="Files (2)").click()
    page.get_by_role("treeitem", name="table.csv").click()
    window = page.get_by_role("dialog")
    expect(window.get_by_role("row", name="2 Oslo 3")).to_be_visible()
    expect(window).to_contain_text("written by a command")
    readable(page)
    page.keyboard.press("Escape")
    page.get_by_role("treeitem", name="notes.md").click()
    expect(window.get_by_role("heading", name="Notes")).to_be_visible()
    window.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete notes.md?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("tab", name="Files (1)")).to_be_visible()
    page.get_by_role("tabpanel", name="Files").locator("input[type=file]").set_input_files(
        {"name": "more.txt", "mimeType": "text/plain", "buffer": b"more"}
    )
    expect(page.get_by_role("treeitem", name="more.txt")).to_be_visible()
    address = page.get_by_role("link", name="Download all").get_attribute("href")
    with urlopen(f"{work.address}{address}", timeout=60) as answer, zipfile.ZipFile(io.BytesIO(answer.read())) as archive:
        assert {name for name in archive.namelist() if not name.endswith("/")} == {"more.txt", "out/table.csv"}


def test_output_comes_while_a_command_runs_and_the_command_is_stopped(work: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Call("bash", {"command": "echo first; sleep 100; echo second"}))
    page = visit(work, f"/chat/{begin(work)}", width=WIDE)
    log = terminal(page)
    expect(log).to_contain_text("No command has run yet.")
    write(page, "Wait")
    expect(log.get_by_text("first", exact=True)).to_be_visible()
    expect(log).to_contain_text("running")
    expect(card(page, "$ echo first").get_by_role("log", name="Output")).to_contain_text("first")
    log.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("You stopped this answer")).to_be_visible()
    expect(log.get_by_role("button", name="Stop")).to_have_count(0)


@pytest.mark.row("001-18")
def test_a_command_is_shown_before_it_is_allowed_or_refused(
    work: Site, models: ScriptedModels, visit: Open, readable: Check
) -> None:
    remove = Call("bash", {"command": "echo begin; rm -r notes.txt"})
    models.script(remove, Say("Not then."), remove, Say("Gone."), remove, Say("Nothing left."))
    conversation = begin(work, commands={"ask": ["Bash(rm:*)"]})
    put(work, conversation, "notes.txt", b"old")
    page = visit(work, f"/chat/{conversation}", width=WIDE, scheme="dark")
    question = page.get_by_role("region", name="Allow the model to run this command?")
    write(page, "Clean up")
    expect(question.get_by_role("region", name="Command")).to_have_text("echo begin; rm -r notes.txt")
    for text in ("rm -r notes.txt", "ask Bash(rm:*)", "Rule of the conversation", "Files"):
        expect(question).to_contain_text(text)
    readable(page)
    question.get_by_label("Reason for refusing").fill("I need it")
    question.get_by_role("button", name="Refuse").click()
    expect(page.get_by_text("Not then.")).to_be_visible()
    expect(page.get_by_text("refused").first).to_be_visible()
    assert "I need it" in models.seen[1].last

    write(page, "Please")
    question.get_by_label("Allow for longer").click()
    page.get_by_role("menuitem", name="Allow in this conversation").click()
    expect(page.get_by_text("Gone.")).to_be_visible()
    expect(page.get_by_text("Deleted notes.txt")).to_be_visible()
    put(work, conversation, "notes.txt", b"new")
    write(page, "Again")
    expect(page.get_by_text("Nothing left.")).to_be_visible()  # the same call is not asked about again


def test_what_would_be_written_is_shown_before_it_is_allowed(
    work: Site, models: ScriptedModels, visit: Open, uncut: Check
) -> None:
    lines = "".join(f"- point {number} of the summary\n" for number in range(400))
    models.script(Call("file_write", {"file_path": "/workspace/summary.md", "content": lines}), Say("Written."))
    page = visit(work, f"/chat/{begin(work, commands={'ask': ['Write(**)']})}", width=390)
    write(page, "Write a summary")
    question = page.get_by_role("region", name="Allow the model to write this file?")
    content = question.get_by_role("region", name="New content")
    expect(content).to_contain_text("- point 399 of")
    expect(content).not_to_contain_text("- point 200 of")
    uncut(page)
    content.get_by_role("button", name="show all").click()
    expect(content).to_contain_text("- point 200 of")
    question.get_by_role("button", name="Allow once").click()
    expect(page.get_by_text("Written.")).to_be_visible()


def test_tools_are_switched_for_a_conversation_and_for_an_agent(work: Site, models: ScriptedModels, visit: Open) -> None:
    models.script(Say("Without a shell."), Say("With rules."))
    page = visit(work, "/chat", width=WIDE)
    page.get_by_placeholder("openai:gpt-5").fill("openai-chat:gpt-5")
    page.get_by_role("button", name="More settings").click()
    page.get_by_label("Workspace").uncheck()
    write(page, "Hello")
    expect(page.get_by_text("Without a shell.")).to_be_visible()
    offered = {tool["function"]["name"] for tool in models.seen[0].body["tools"]}
    assert "skill" in offered
    assert "bash" not in offered
    page.get_by_role("tab", name="Terminal").click()
    expect(page.get_by_text("This conversation has no workspace", exact=True)).to_be_visible()

    page.goto(page.url)  # the panel shows the tab that was chosen
    expect(page.get_by_role("tab", name="Terminal")).to_have_attribute("aria-selected", "true")

    page.goto("/agents/new")
    page.get_by_role("textbox", name="Name").fill("Clerk")
    rules = page.get_by_role("group", name="Commands and files")
    page.watch.forgive("status of 400")  # type: ignore[attr-defined]
    rules.get_by_label("Deny", exact=True).fill("Bash(git push:*)\nBash(")
    expect(rules.get_by_text("such as Bash(git:*)")).to_be_visible()
    rules.get_by_label("Deny", exact=True).fill("Bash(git push:*)\n")
    expect(rules.get_by_text("such as Bash(git:*)")).to_have_count(0)
    expect(rules.get_by_label("Deny", exact=True)).not_to_have_attribute("aria-invalid", "true")
    rules.get_by_label("Allow", exact=True).fill("Bash(git:*)")
    tried = rules.get_by_role("group", name="Try a command")
    for command, ruling in (("git log", "allow Bash(git:*)"), ("env git -C x push", "deny Bash(git push:*)")):
        tried.get_by_label("Command or path").fill(command)
        expect(tried.get_by_role("status")).to_contain_text(ruling)
    expect(tried.get_by_role("status")).to_contain_text("Rule of the agent")
    page.get_by_role("link", name="All agents").click()
    page.get_by_role("dialog", name="Leave without saving?").get_by_role("button", name="Cancel").click()
    page.get_by_role("radiogroup", name="Rule for bash").get_by_text("off").click()
    page.get_by_role("radiogroup", name="Rule for file_write").get_by_text("ask").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Agent saved")).to_be_visible()
    (agent,) = work.ask("GET", "/api/v1/agents")["data"]
    assert agent["settings"]["tool_permissions"] == {"bash": "deny", "file_write": "ask"}
    commands = {name: rules for name, rules in agent["settings"]["commands"].items() if rules}
    assert commands == {"allow": ["Bash(git:*)"], "deny": ["Bash(git push:*)"]}
    made = work.ask("POST", CHAT, {"agent": "Clerk", "model": "openai-chat:gpt-5"})["data"]["id"]
    page.goto(f"/chat/{made}")
    write(page, "Hello")
    expect(page.get_by_text("With rules.")).to_be_visible()
    offered = {tool["function"]["name"] for tool in models.seen[1].body["tools"]}
    assert ("bash" in offered, "file_write" in offered) == (False, True)


def test_hostile_files_and_output_run_nothing(work: Site, models: ScriptedModels, visit: Open) -> None:
    escapes = r"printf '\033]0;title\007\033[31mred\033[0m \342\200\256turned\n'"
    models.script(Call("bash", {"command": f"{escapes}; echo '{_HARM}'"}), Say("Done."))
    conversation = begin(work)
    files = {"page.html": _HARM, "note.md": f"# Note\n\n{_HARM}\n", "sheet.csv": f'"{_HARM.replace(chr(34), chr(34) * 2)}",1\n'}
    for name, text in files.items():
        put(work, conversation, name, text.encode())
    put(
        work,
        conversation,
        "drawing.svg",
        b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"><script>alert(4)</script></svg>',
    )
    put(work, conversation, "document.pdf", pdf())
    page = visit(work, f"/chat/{conversation}", width=WIDE)
    write(page, "Go on")
    expect(page.get_by_text("Done.")).to_be_visible()
    log = terminal(page)
    expect(log).to_contain_text("<script>alert(1)</script>")
    assert "\x1b" not in log.inner_text()
    assert "\u202e" not in log.inner_text()
    page.get_by_role("tab", name="Files (5)").click()
    window = page.get_by_role("dialog")
    for name in (*files, "drawing.svg", "document.pdf"):
        page.get_by_role("treeitem", name=name).click()
        shown = (
            window.get_by_role("img", name="Page 1 of 1") if name.endswith("pdf") else window.get_by_role("region", name=name)
        )
        expect(shown).to_be_visible()
        assert window.locator("script, iframe, object, embed, [onerror], [onload], img:not([src^='data:image/'])").count() == 0
        page.keyboard.press("Escape")
        expect(window).to_have_count(0)


def test_the_panel_fits_a_telephone(work: Site, models: ScriptedModels, visit: Open, readable: Check, uncut: Check) -> None:
    models.script(Call("bash", {"command": "echo " + "x" * 300}), Say("好的。"))
    conversation = begin(work)
    put(work, conversation, "a-long-name-of-a-file-" + "y" * 80 + ".txt", b"text")
    page = visit(work, f"/chat/{conversation}", width=360, language="zh-CN", scheme="dark")
    page.get_by_label("输入消息").fill("开始")
    page.get_by_label("输入消息").press("Enter")
    expect(page.get_by_text("好的。")).to_be_visible()
    page.get_by_label("工作区、使用情况与设置").click()
    expect(page.get_by_role("tab", name="文件 (1)")).to_have_attribute("aria-selected", "true")
    for name in ("设置", "终端", "文件 (1)"):
        page.get_by_role("tab", name=name).click()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        readable(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        uncut(page)
        assert page.get_by_role("dialog").get_by_role("region").first.evaluate("box => box.scrollWidth <= box.clientWidth")
