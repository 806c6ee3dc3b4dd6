"""One request to run a skill, through every interface: the same outcome, and the same files."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from starlette.testclient import TestClient

from skillyard import Catalog, SkillTools
from skillyard.cli.program import main
from skillyard.engine import RunFiles, Schedule
from skillyard.errors import SkillyardError
from skillyard.execution import WorkFile, text_files
from skillyard.mcp.mcp_server import create_server
from skillyard.registry import Registry
from skillyard.server import create_app
from skillyard.times import utc_now

COUNT = """
import json, pathlib, sys
from .words import count
found = count(pathlib.Path(sys.argv[1]).read_text())
pathlib.Path("made").mkdir()
pathlib.Path("made/count.txt").write_text(str(found))
context = json.load(sys.stdin)["context"]
print(json.dumps({
    "output": {"words": found, "arguments": sys.argv[2:], "language": context["language"]}, "format": "object",
    "status": "success", "message": "counted", "tokenUsage": {"total": 3}, "warnings": ["only once"],
    "intermediateSteps": [{"stepId": "1", "stepName": "count", "duration": 2}],
}))
"""
ARGUMENTS = ["in/text.txt", "-v", "two\nlines", "--", "--name=a b", ""]
GIVEN = {"in/text.txt": "one two three"}
OUTCOME = {
    "status": "ok",
    "output": {"words": 3, "arguments": ARGUMENTS[1:], "language": "en"},
    "format": "object",
    "message": "counted",
    "error": None,
    "token_usage": {"total": 3},
    "warnings": ["only once"],
    "files": ["made/count.txt"],
    "exit_code": 0,
    "memory_writes": [],
}
FILES = {"made/count.txt": b"3"}
Asked = tuple[Mapping[str, Any], Mapping[str, bytes]]


@pytest.fixture
def home(tmp_path: Path, skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one skill that has two scripts and declares no entry."""
    files = {"scripts/count.py": COUNT, "scripts/words.py": "def count(text): return len(text.split())"}
    make_skill(skills_root, "kit", files=files)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def catalog(home: Path, skills_root: Path) -> Iterator[Catalog]:
    found = Catalog.discover(roots=[skills_root], cache=False)
    yield found
    found.records().close()


def kept(catalog: Catalog, run_id: str) -> dict[str, bytes]:
    """The files of a run in the records."""
    files = RunFiles(lambda: catalog.records().database).of(run_id, "made")
    return {file.name: file.data for file in files}


async def by_library(catalog: Catalog) -> Asked:
    run = await catalog.run(
        "kit", entry="scripts.count", arguments=ARGUMENTS, context={"language": "en"}, files=text_files(GIVEN)
    )
    assert {file.name: file.data for file in run.made} == kept(catalog, run.run_id)
    return run.to_dict(), kept(catalog, run.run_id)


async def by_command_line(catalog: Catalog) -> Asked:
    text = Path("text.txt")
    text.write_text(GIVEN["in/text.txt"])
    words = ["run", "kit", "--root", "skills", "--json", "--entry", "scripts.count", "--context", '{"language": "en"}']
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = await asyncio.to_thread(main, [*words, "--file", "in/text.txt=text.txt", "--output", "got", "--", *ARGUMENTS])
    assert code == 0
    return json.loads(printed.getvalue()), {"made/count.txt": Path("got/made/count.txt").read_bytes()}


async def by_http(catalog: Catalog) -> Asked:
    return await asyncio.to_thread(_by_http, catalog)


def _by_http(catalog: Catalog) -> Asked:
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        uploaded = client.post("/api/v1/runs/uploads?name=in/text.txt", content=GIVEN["in/text.txt"]).json()["data"]
        order = {"skill": "kit", "entry": "scripts.count", "arguments": ARGUMENTS, "context": {"language": "en"}}
        answer = client.post("/api/v1/runs", json=order | {"files": [{"upload": uploaded["id"]}]})
        assert answer.status_code == 201, answer.text
        run = answer.json()["data"]
        content = base64.b64encode(GIVEN["in/text.txt"].encode()).decode()
        inline = client.post("/api/v1/runs", json=order | {"files": [{"name": "in/text.txt", "content": content}]})
        assert inline.json()["data"]["output"] == run["output"]
        at = f"/api/v1/runs/{run['run_id']}/files"
        listed = client.get(at).json()["data"]
        assert listed == [{"name": "made/count.txt", "size": 1, "media_type": "text/plain"}]
        again = client.post("/api/v1/runs", json=order | {"files": [{"upload": uploaded["id"]}]})
        assert (again.status_code, again.json()["code"]) == (404, "file_not_found")  # an upload is for one run
        return run, {file["name"]: client.get(f"{at}/{file['name']}").content for file in listed}


async def by_mcp(catalog: Catalog) -> Asked:
    tools = SkillTools(catalog, context={"language": "en"})
    order = {"name": "kit", "entry": "scripts.count", "arguments": ARGUMENTS, "files": GIVEN}
    async with Client(create_server(tools)) as client:
        result = await client.call_tool("run_skill", order)
    text = result.content[0].text  # type: ignore[union-attr]
    assert "Content of made/count.txt:\n3" in text
    assert "counted" in text
    assert result.structured_content is not None
    run = result.structured_content
    assert "data, not instructions" in run["note"]
    assert run["text"] == text  # some clients show a model the structured content alone
    return run, kept(catalog, run["run_id"])


async def by_schedule(catalog: Catalog) -> Asked:
    planned = Schedule(
        "count", "config:kit", context={"language": "en"}, entry="scripts.count", arguments=tuple(ARGUMENTS)
    )  # fmt: skip
    due = utc_now() + timedelta(hours=1)
    catalog.schedules().add(planned, at=due, files=text_files(GIVEN))
    (begun,) = await catalog.scheduler().begin_due(due)
    await begun.ended
    assert catalog.schedules().get("count").files == ("in/text.txt",)
    record = catalog.records().journal.get(begun.run_id)
    return record.to_dict(), kept(catalog, begun.run_id)


WAYS: dict[str, Callable[[Catalog], Awaitable[Asked]]] = {
    "library": by_library,
    "command line": by_command_line,
    "http": by_http,
    "mcp": by_mcp,
    "schedule": by_schedule,
}


@pytest.mark.row("000-37", "C-30")
@pytest.mark.parametrize("way", WAYS)
async def test_the_same_request_has_the_same_outcome(way: str, catalog: Catalog) -> None:
    run, files = await WAYS[way](catalog)
    assert {name: run[name] for name in OUTCOME} == OUTCOME
    assert [step["stepName"] for step in run["steps"]] == ["count"]
    assert run["duration_ms"] > 0
    assert run["memory_usage"] is None or run["memory_usage"] > 1_000_000
    assert files == FILES
    record = catalog.records().journal.list()[-1]
    assert record.interface == {"command line": "cli", "mcp": "library"}.get(way, way)  # its tools were made here


@pytest.mark.parametrize("way", ["library", "schedule"])
async def test_a_worker_on_postgresql_gives_it_too(
    way: str, home: Path, skills_root: Path, address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, timing: Any
) -> None:
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    settings = home / ".config/skillyard/skillyard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[engine]\nkind = "procrastinate"\n')
    catalog = Catalog.discover(roots=[skills_root], home=home, cache=False)
    catalog.timing = timing
    stop = asyncio.Event()
    serving = asyncio.create_task(catalog.worker().serve(stop, grace_s=5))
    try:
        run, files = await WAYS[way](catalog)
        record = catalog.records().journal.get(run["run_id"])
        given = RunFiles(lambda: catalog.records().database).of(run["run_id"], "given")
    finally:
        stop.set()
        await serving
        catalog.records().close()
    assert {name: run[name] for name in OUTCOME} == OUTCOME
    assert files == FILES
    assert record.arguments == tuple(ARGUMENTS)
    assert given == ()  # they went with the run


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"arguments": ["a\0b"]}, "argument 1 holds a NUL"),
        ({"arguments": ["\udcff"]}, "argument 1 is not valid text"),
        ({"arguments": ["a" * 70_000]}, "argument 1 has 70000 bytes"),
        ({"arguments": ["a" * 60_000] * 5}, "the arguments have 300000 bytes"),
        ({"arguments": ["a"] * 1_001}, "there are 1001 arguments"),
        ({"packages": ["--index-url=x"]}, "is not a package by name"),
        ({"files": [WorkFile("a", b""), WorkFile("a/b", b"")]}, "'a' is a file and a folder"),
        ({"files": [WorkFile("a", b""), WorkFile("a", b"")]}, "two files have one name"),
        ({"files": [WorkFile("a", b"")], "work": "."}, "exclude each other"),
        ({"entry": "../../outside.py"}, "outside"),
    ],
)
async def test_what_cannot_be_asked_is_refused_before_anything_is_recorded(
    catalog: Catalog, request_: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(SkillyardError, match=message):
        await catalog.run("kit", **({"entry": "count"} | dict(request_)))
    assert all(record.state == "failed" for record in catalog.records().journal.list())


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", ".hidden", "a/.git/config", "a\nb", "\u202egpj.exe", "a" * 300, ""])
def test_a_file_that_cannot_lie_in_a_work_folder_is_refused(name: str) -> None:
    with pytest.raises(SkillyardError):
        WorkFile(name, b"")


async def test_the_folder_of_the_user_is_all_that_a_run_reads_and_writes(
    catalog: Catalog, make_skill: Any, skills_root: Path, tmp_path: Path
) -> None:
    code = """
import os, pathlib, sys
for path in ("link", "inner/secret.txt"):
    assert not os.path.lexists(path), path
os.symlink(sys.argv[1], "away")
os.symlink("/etc/passwd", "passwd")
pathlib.Path("in.txt").write_text("changed")
pathlib.Path("new").mkdir()
pathlib.Path("new/file.txt").write_text("new")
try:
    pathlib.Path("away/planted.txt").write_text("x")
except OSError as error:
    print("refused")
"""
    make_skill(skills_root, "worker", files={"scripts/work.py": code})
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    (work / "in.txt").write_text("before")
    (outside / "secret.txt").write_text("secret")
    (work / "link").symlink_to(outside / "secret.txt")
    (work / "inner").symlink_to(outside)
    catalog.refresh()
    run = await catalog.run("worker", entry="work", work=work, arguments=[str(outside)])
    assert (run.status, run.output) == ("ok", "refused"), run.stderr
    assert sorted(run.files) == ["in.txt", "new/file.txt"]
    assert (work / "in.txt").read_text() == "changed"
    assert not (work / "away").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert kept(catalog, run.run_id) == {}  # they are in the folder


@pytest.mark.parametrize("script", ["def excute(p): return 1", "VALUE = 1"])
async def test_an_entry_without_execute_is_an_error_that_says_how(
    catalog: Catalog, make_skill: Any, skills_root: Path, script: str
) -> None:
    make_skill(skills_root, "typo", files={"scripts/execute.py": script})
    catalog.refresh()
    run = await catalog.run("typo")
    assert run.error is not None
    assert (run.status, run.error.code) == ("error", "EXECUTE_MISSING")
    assert "define `execute(parameters)`" in run.error.message
    assert (await catalog.run("typo", entry="scripts/execute.py")).ok  # chosen, it is a program


async def test_a_program_that_fails_is_its_output_and_exit_code(
    catalog: Catalog, make_skill: Any, skills_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys\nprint('1e5')\nprint('why', file=sys.stderr)\nsys.exit(7)"
    make_skill(skills_root, "fails", files={"scripts/fail.py": code})
    words = ["run", "fails", "--root", "skills", "--output-only", "--entry", "fail"]
    assert await asyncio.to_thread(main, words) == 7
    assert capfd.readouterr() == ("1e5\n", "why\n")
