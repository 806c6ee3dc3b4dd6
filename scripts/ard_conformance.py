"""Runs the conformance command of Agentic Resource Discovery against our server (`make conformance ARD=folder`).

The command is in no package registry: it is `conformance/bin/conformance-test` of the repository ards-project/ard-spec, a
checkout of which the folder is. The server has a home of its own, with installed example skills and an agent that has one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from run import ROOT, private_environment, start

TOOL = Path("conformance/bin/conformance-test")
SKILLS = ("pdf-miner", "text-statistics", "weather-query")
AGENT = {"name": "Counter", "description": "Counts words of texts.", "skills": [{"skill": "text-statistics"}]}


def main() -> int:
    """0 when it finds nothing, 1 when it finds something, 2 when it is not in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of ards-project/ard-spec")
    tool = parser.parse_args().folder.resolve() / TOOL
    if not tool.is_file():
        sys.stderr.write(f"error: {tool} is not there\nhint: name the folder of a checkout of ards-project/ard-spec\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        _install(home)
        with start(str(home / "none"), 0, "--json", home=home) as server:
            try:
                assert server.stdout is not None  # noqa: S101 # it was asked for
                address = json.JSONDecoder().raw_decode(server.stdout.readline())[0]["address"]
                _post(f"{address}/api/v1/agents", AGENT)
                manifest = _run(tool, "manifest", f"{address}/.well-known/ai-catalog.json")
                registry = _run(tool, "registry", f"{address}/ard", "--header", "X-Request-Id: conformance")
            finally:
                server.terminate()
    return int(manifest != 0 or registry != 0)


def _install(home: Path) -> None:
    """Install some of the example skills, so that the server offers them."""
    project = home / "project"
    project.mkdir()
    for name in SKILLS:
        skill = ROOT / "examples/skills" / name
        command = [sys.executable, "-m", "skillyard", "install", str(skill), "--yes", "--quiet", "--project", str(project)]
        subprocess.run(command, check=True, env=private_environment(home), stdout=subprocess.DEVNULL)  # noqa: S603


def _post(address: str, body: object) -> None:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 # ours
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 # ours
        answer.read()


def _run(tool: Path, *words: str) -> int:
    return subprocess.run([sys.executable, str(tool), *words], check=False).returncode  # noqa: S603 # what was asked for


if __name__ == "__main__":
    sys.exit(main())
