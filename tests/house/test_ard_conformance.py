"""`make conformance` runs a conformance command against a server with something to find, and ends as that does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/ard_conformance.py"
STAND_IN = """\
import json, sys, urllib.request

kind, address = sys.argv[1:3]
if kind == "manifest":
    entries = json.load(urllib.request.urlopen(address))["entries"]
    print("manifest", sorted(entry["identifier"].split(":")[3] for entry in entries))
else:
    body = json.dumps({"query": {"text": "count words"}}).encode()
    request = urllib.request.Request(f"{address}/search", body, {"Content-Type": "application/json"})
    print("registry", json.load(urllib.request.urlopen(request))["results"][0]["displayName"])
sys.exit(kind == "WRONG")
"""


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=120, check=False)


def test_a_folder_without_the_command_is_said_to_be_one(tmp_path: Path) -> None:
    done = _run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hint: name the folder of a checkout" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("wrong", "code"), [("nothing", 0), ("manifest", 1), ("registry", 1)])
def test_the_command_is_run_against_skills_agents_and_the_registry(tmp_path: Path, wrong: str, code: int) -> None:
    tool = tmp_path / "conformance/bin/conformance-test"
    tool.parent.mkdir(parents=True)
    tool.write_text(STAND_IN.replace("WRONG", wrong), "utf-8")
    done = _run(tmp_path)
    assert done.returncode == code, done.stderr
    reported = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert reported["manifest"] == "['agent', 'registry', 'server', 'skill', 'skill', 'skill']"
    assert reported["registry"] in ("text-statistics", "Counter")
