"""Small skills of ours with the workflows of public ones, in sessions with the real programs: a form, a sheet, a page."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skillyard import Catalog
from skillyard.environments import SkillGrant
from skillyard.tools import SkillTools, ToolResult
from skillyard.workspace import Workspace, WorkspaceOptions

_SKILL = "---\nname: {name}\ndescription: Does {name} for tests.\n---\n\n# {name}\n\n`scripts/` has what is needed.\n"
_MERGE = """#!/bin/sh
# merge.sh OUT IN...: merges, and says what the result holds
set -e
out=$1; shift
qpdf --empty --pages "$@" -- "$out"
qpdf --check "$out" >/dev/null
pdftotext -layout "$out" -
"""
_CONVERT = """import pathlib, subprocess, sys
source, target = map(pathlib.Path, sys.argv[1:3])
done = subprocess.run(["soffice", "--headless", "--convert-to", target.suffix[1:], "--outdir", str(target.parent), str(source)],
                      capture_output=True, text=True, timeout=110)
print(done.returncode, target.exists())
"""
_SERVE = """import functools, http.server, subprocess, sys, threading
page = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), page)
threading.Thread(target=server.serve_forever, daemon=True).start()
shown = subprocess.run(["chromium", "--headless", "--virtual-time-budget=2000", "--dump-dom",
                        f"http://127.0.0.1:{server.server_port}/"], capture_output=True, text=True, timeout=110)
print(shown.stdout)
server.shutdown()
"""


_NAMES = 'xmlns:{0}="urn:oasis:names:tc:opendocument:xmlns:{0}:1.0"'
_SHEET = f"""<?xml version="1.0"?>
<office:document {_NAMES.format("office")} {_NAMES.format("table")} xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"
 office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.spreadsheet">
<office:body><office:spreadsheet><table:table table:name="S"><table:table-row>
<table:table-cell office:value-type="float" office:value="2"/><table:table-cell office:value-type="float" office:value="9.25"/>
<table:table-cell table:formula="of:=[.A1]*[.B1]"/>
</table:table-row></table:table></office:spreadsheet></office:body></office:document>
"""


def _pdf(word: str) -> bytes:
    """A page with one word."""
    stream = f"BT /F1 24 Tf 72 720 Td ({word}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream), b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]  # fmt: skip
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj%s endobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return made + end % (table, len(made))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass through."""
    made = Path(tempfile.mkdtemp(prefix="skillyard-at-work-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


class Follower:
    """Calls the tools that a model is offered."""

    def __init__(self, tools: SkillTools, files: Path, skill: str) -> None:
        self._tools, self.files, self.skill = tools, files, skill

    async def bash(self, command: str) -> ToolResult:
        return await self._tools.call("bash", {"command": command.replace("{skill}", self.skill)})


@asynccontextmanager
async def _following(folder: Path, name: str, scripts: dict[str, str], *programs: str) -> AsyncIterator[Follower]:
    """One skill of ours, installed nowhere: found, granted, and followed in a workspace."""
    skill = folder / "skills" / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(_SKILL.format(name=name))
    for file, text in scripts.items():
        (skill / "scripts" / file).write_text(text)
    files = folder / "files"
    files.mkdir(mode=0o755)
    home = str(folder / "home")
    catalog = Catalog.discover(roots=[str(folder / "skills")], environ={"SKILLYARD_HOME": home, "HOME": home}, cwd=str(folder))
    proposed = catalog.grants().needs(catalog.get(name)).proposed
    assert proposed == SkillGrant(programs=programs)
    environment = catalog.grants().environment(proposed)
    found = catalog.get(name)
    workspace = Workspace(files, options=WorkspaceOptions(environment=environment, skills=(found.directory,)))
    try:
        yield Follower(SkillTools(catalog, workspace=workspace, record=False), files, found.directory)
    finally:
        await workspace.close()


async def test_a_skill_merges_pdfs_by_the_programs_that_its_scripts_call(folder: Path) -> None:
    async with _following(folder, "pdf-merging", {"merge.sh": _MERGE}, "pdftotext", "qpdf") as follower:
        for word in ("first", "second"):
            (follower.files / f"{word}.pdf").write_bytes(_pdf(word))
        reported = await follower.bash(
            "cd {skill} && sh scripts/merge.sh /workspace/all.pdf /workspace/first.pdf /workspace/second.pdf"
        )
        assert reported.ok, reported.text
        assert reported.text.index("first") < reported.text.index("second")


async def test_a_skill_has_libreoffice_calculate_a_sheet(folder: Path) -> None:
    async with _following(folder, "office-converting", {"convert.py": _CONVERT}, "soffice") as follower:
        (follower.files / "sheet.fods").write_text(_SHEET)
        reported = await follower.bash("python {skill}/scripts/convert.py sheet.fods sheet.csv && cat sheet.csv")
        assert "0 True\n2,9.25,18.5" in reported.text, reported.text


async def test_a_skill_serves_a_page_and_sees_it_in_chromium(folder: Path) -> None:
    async with _following(folder, "page-testing", {"see.py": _SERVE}, "chromium") as follower:
        (follower.files / "site").mkdir()
        (follower.files / "site/index.html").write_text("<p id=x>waiting</p><script>x.textContent = 6 * 7 + ' seen'</script>")
        reported = await follower.bash("python {skill}/scripts/see.py site")
        assert "42 seen" in reported.text, reported.text


async def test_a_copied_template_can_be_changed(folder: Path) -> None:
    async with _following(folder, "note-writing", {"template.json": json.dumps({"title": ""})}) as follower:
        reported = await follower.bash(
            "cp {skill}/scripts/template.json note.json && echo more >> note.json && wc -l < note.json"
        )
        assert reported.ok, reported.text
        refused = await follower.bash("echo more >> {skill}/scripts/template.json")
        assert refused.code == "command_failed"
