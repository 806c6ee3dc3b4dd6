"""Takes the pictures of the page in docs/images (`make screenshots`): each page of a server that was lived in a little."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import tempfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

if TYPE_CHECKING:
    from playwright.sync_api import Page

import run  # noqa: E402 # scripts/run.py, which starts a server

IMAGES = ROOT / "docs/images"
EDITOR = {
    "name": "Editor",
    "description": "Measures texts and writes what changed.",
    "system_prompt": "You are a careful editor. Answer in short sentences, and say what you measured.",
    "model": "anthropic:claude-sonnet-4-5",
    "skills": [{"skill": "text-statistics"}, {"skill": "changelog-writer"}, {"skill": "csv-summary"}],
    "settings": {
        "tool_permissions": {"code_run": "ask"},
        "commands": {
            "allow": ["Bash(git:*)", "Bash(wc:*)", "Read(docs/**)"],
            "ask": ["Bash(git commit:*)"],
            "deny": ["Bash(git push:*)", "Read(.env)"],
        },
    },
}
RECORDS = [
    {"city": "Oslo", "days": 3},
    {"city": "Lima", "days": 5},
    {"city": "Lima", "days": 5},
    {"city": " Turin", "days": "2"},
]
RUNS = (
    ("text-statistics", {"text": "Skills are folders. A folder has a SKILL.md. 技能是文件夹。"}),
    ("preference-recorder", {"preference": "tea rather than coffee", "category": "drinks"}),
    ("data-processor", {"data": "no list"}),
    ("data-processor", {"data": RECORDS}),
)
PAST = (("text-statistics", 14, 0.02, 40), ("data-processor", 9, 0.08, 380), ("weather-query", 5, 0.15, 1_400))
"""A skill, how often it ran on a day at most, how often it failed, and its milliseconds."""
ORIGINS = (
    ("http", "default/local user", None),
    ("chat", "default/local user", "Editor"),
    ("mcp", "default/coding agent", None),
    ("schedule", "default/local user", None),
)
SCHEDULES = (
    ("morning-report", {"cron": "0 8 * * mon-fri", "time_zone": "Europe/Berlin"}, "data-processor", {"data": RECORDS}),
    ("reading-time", {"cron": "*/15 * * * *"}, "text-statistics", {"text": "Skills are folders."}),
    ("visits", {"cron": "30 18 1 * *", "time_zone": "Asia/Shanghai"}, "data-processor", {"data": RECORDS}),
    ("new-year", {"at": "2090-01-01T00:00", "time_zone": "Asia/Shanghai"}, "text-statistics", {"text": "Happy new year!"}),
)
POSTER = """\
import sys

from reportlab.pdfgen.canvas import Canvas

page = Canvas(sys.argv[1])
page.drawString(72, 720, "Green tea: two minutes")
page.save()
"""
TABLE = b"city,days\nOslo,3\nLima,5\nLima,5\nTurin,\n"
ANSWER = (
    "The table has **4 rows** and two columns:\n\n"
    "| column | kind | filled | |\n|---|---|---|---|\n"
    "| `city` | text | 4 | Lima twice |\n| `days` | number | 3 | 3 to 5, one blank |\n\n"
    "It is nearly clean: *Turin* has no number of days. To leave it out:\n\n"
    '```python\nrows = [row for row in table if row["days"]]\n```\n'
)


REPORT = (
    "# Visits\n\nFour visits in three cities, 13 days in all.\n\n"
    "| city | visits | days |\n|---|---|---|\n| Lima | 2 | 10 |\n| Oslo | 1 | 3 |\n| Turin | 1 | not given |\n"
)


def scripted(seen: Any) -> Any:
    """What the model of the pictures says: it reads the skill, runs its script, and answers; or it wants to write a report."""
    from scripted_models import Call, Say

    if "report" in seen.user[-1]:
        return [Say("I write down what the table says."), Call("file_write", {"file_path": "report.md", "content": REPORT})]
    if len(seen.calls) == 0:
        return [Say("I look at the table with the skill for tables."), Call("skill", {"skill": "csv-summary"})]
    if len(seen.calls) == 1:
        return [Call("run_skill", {"skill": "csv-summary", "arguments": ["visits.csv"]})]
    if len(seen.calls) == 2:
        return [Call("bash", {"command": "mkdir -p out && grep -v ',$' visits.csv > out/clean.csv && wc -l out/clean.csv"})]
    return Say(ANSWER)


SHOTS = (
    # name, address, colours
    ("home", "/", "light"),
    ("skills", "/skills", "light"),
    ("skill-run", "/skills/installed:tea-timer?tab=run", "light"),
    ("chat", "/chat/{chat}", "light"),
    ("chat-asks", "/chat/{asks}", "dark"),
    ("run", "/runs/{run}", "light"),
    ("schedules", "/schedules", "light"),
    ("schedule-new", "/schedules?add=config:text-statistics", "light"),
    ("agent", "/agents/{agent}", "light"),
)
"""Each is shown by a page of docs/ or by the README."""


class Server:
    """What a program asks of the server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: object = None, *, raw: tuple[str, bytes] | None = None) -> Any:
        """The data of the answer."""
        media, data = raw or ("application/json", json.dumps(body).encode() if body is not None else b"")
        request = Request(f"{self.address}{path}", data or None, {"Content-Type": media}, method=method)  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310 # our own, on loopback
            return json.load(answer)["data"]

    def live(self) -> dict[str, str]:
        """Install, run and define a little; give the ids that addresses need."""
        for version in ("1.0.0", "1.1.0"):
            self.ask("POST", "/api/v1/skill-definitions/upload-create", raw=_form(_tea_timer(version)))
        known = {}
        for skill, parameters in RUNS:
            known["run"] = self.ask("POST", "/api/v1/runs", {"skill": skill, "parameters": parameters})["run_id"]
        for name, when, skill, parameters in SCHEDULES:
            self.ask("POST", "/api/v1/schedules", when | {"name": name, "skill": skill, "parameters": parameters})
        self.ask("POST", "/api/v1/schedules/visits/pause")
        self.ask("POST", "/api/v1/agents", EDITOR | {"name": "Travel desk", "skills": [{"skill": "weather-query"}]})
        known["agent"] = self.ask("POST", "/api/v1/agents", EDITOR)["id"]
        known["chat"] = self.talk("What is in this table, and is it clean?", {})
        return known | {"asks": self.talk("Write a report on this table", {"ask": ["Write(**)"]})}

    def talk(self, text: str, rules: dict[str, list[str]]) -> str:
        """Ask a scripted model about a table, as far as it comes by itself; `rules` are about commands and files."""
        body = {"model": "openai-chat:gpt-5", "settings": {"commands": rules}}
        made = self.ask("POST", "/api/v1/chat/conversations", body)["id"]
        at = f"/api/v1/chat/conversations/{made}"
        self.put(f"{at}/files/visits.csv", TABLE)
        said = {"text": text, "files": ["visits.csv"]}
        turn = self.ask("POST", f"{at}/messages", said)["id"]
        with urlopen(f"{self.address}{at}/turns/{turn}/events", timeout=60) as events:  # noqa: S310 # our own, on loopback
            events.read()
        return str(made)

    def put(self, path: str, data: bytes) -> None:
        """Give a conversation a file."""
        request = Request(f"{self.address}{path}", data, {"Content-Type": "application/octet-stream"}, method="PUT")  # noqa: S310
        urlopen(request, timeout=60).close()  # noqa: S310


def _tea_timer(version: str) -> bytes:
    minutes = "three" if version == "1.0.0" else "four"
    text = (
        f"---\nname: tea-timer\ndescription: Says how long a tea should draw. Use when tea is made.\nversion: {version}\n"
        "license: Apache-2.0\ntags: [kitchen, tea]\n---\n# Tea timer\n\nEach tea has its time.\n\n"
        f"| Tea | Water | Minutes |\n|---|---|---|\n| green | 75 °C | two |\n| black | 95 °C | {minutes} |\n"
        "| herbs | 100 °C | eight |\n\n"
        "1. Ask which tea it is, when nobody said.\n2. Look it up in the table.\n3. Say the time, and how hot the water is.\n"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("tea-timer/SKILL.md", text)
        archive.writestr("tea-timer/scripts/poster.py", POSTER)
        archive.writestr("tea-timer/references/water.md", f"# Water\n\nFresh water, {minutes} minutes for black tea.\n")
    return stream.getvalue()


def past_runs(data: Path) -> None:
    """Write down two fortnights of runs, as if the server had been in use."""
    from skillyard.database import Database, runs

    chance, now, rows = random.Random(7), datetime.now(UTC), []  # noqa: S311 # the same pictures each time
    usual = {"kind": "direct", "parameters": {}, "context": {}, "cache_hit": False, "owner": "default/local user"}
    for day in range(1, 28):
        for skill, daily, fails, took in PAST:
            for number in range(chance.randint(daily // 3, daily) // (3 if (now - timedelta(days=day)).weekday() > 4 else 1)):
                bad = chance.random() < fails * (3 if day < 14 and skill == "weather-query" else 1)
                at = now - timedelta(days=day, minutes=number)
                interface, caller, agent = chance.choice(ORIGINS)
                rows.append(
                    usual
                    | {
                        "id": f"run_{len(rows):026x}", "skill_id": f"config:{skill}", "skill_name": skill,
                        "state": "failed" if bad else "succeeded", "error_code": "EXECUTION_ERROR" if bad else None,
                        "created_at": at, "finished_at": at, "duration_ms": round(took * chance.lognormvariate(0, 0.4)),
                        "interface": interface, "caller": caller, "agent": agent, "version": "1.0.0",
                    }
                )  # fmt: skip
    database = Database.open(str(data))
    with database.write() as connection:
        connection.execute(runs.insert(), rows)
    database.close()


def _form(archive: bytes) -> tuple[str, bytes]:
    mark = "----screenshots"
    head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="tea-timer.zip"\r\n\r\n'.encode()
    return f"multipart/form-data; boundary={mark}", head + archive + f"\r\n--{mark}--\r\n".encode()


def settle(page: Page) -> None:
    """Wait until the page stands: on a busy machine its parts come one after the other."""
    from playwright.sync_api import expect

    page.get_by_role("heading", level=1).wait_for()
    for _ in range(2):
        page.wait_for_load_state("networkidle")
        expect(page.locator(".mantine-Skeleton-root")).to_have_count(0)
        page.wait_for_timeout(700)


def main() -> None:
    """Every picture anew."""
    from playwright.sync_api import sync_playwright
    from scripted_models import ScriptedModels

    IMAGES.mkdir(exist_ok=True)
    models = ScriptedModels()
    models.answer_with(scripted)
    os.environ.update(models.environment)
    with tempfile.TemporaryDirectory() as place:
        skills = Path(place, "skills")
        shutil.copytree(ROOT / "examples/skills", skills)
        with run.start(str(skills), 0, "--json", home=Path(place, "home")) as server, sync_playwright() as playwright:
            assert server.stdout is not None  # noqa: S101 # it was asked for
            try:
                address = json.loads(server.stdout.readline())["address"]
                known = Server(address).live()
                past_runs(Path(place, "home/data"))
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"), args=["--no-sandbox"]
                )
                for name, path, scheme in SHOTS:
                    page = browser.new_page(
                        base_url=address,
                        color_scheme=scheme,
                        locale="en-GB",
                        viewport={
                            "width": 1440 if name.startswith("chat") else 1280,
                            "height": 960 if name == "chat-asks" else 800,
                        },  # type: ignore[arg-type]
                    )
                    page.goto(path.format(**known))
                    settle(page)
                    if name == "agent":  # its rules about commands, and what they say of one
                        page.get_by_label("Command or path").fill("env git -C site push")
                        page.get_by_role("status").get_by_text("denied").wait_for()
                        page.get_by_role("group", name="Try a command").scroll_into_view_if_needed()
                    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
                    page.close()
                browser.close()
            finally:
                server.terminate()
                models.close()


if __name__ == "__main__":
    main()
