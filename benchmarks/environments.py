"""What a cached environment adds to a run: the same script with nothing, packages of Python, of npm, programs, in turns.

`python -m benchmarks.environments [rounds]`. Read the fastest of each: other work on the machine only adds. The packages
are made here, so nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures.goals import Goal, print_goals
from skillyard.environments import EnvironmentRequest, SkillGrant
from skillyard.environments.locked_packages import NodePackages, PythonInterpreter, PythonPackages
from skillyard.sandbox import Job, Policy, choose_backend

SCRIPT = "import json\nprint(json.dumps({'ok': True}))\n"
PACKAGES = tuple(f"package-{number}" for number in range(20))
MODULES = 300


def make_cached(home: Path) -> None:
    """Put locks and folders where a grant leaves them: 20 Python packages, and 300 npm packages."""
    os.environ["SKILLYARD_HOME"] = str(home)
    python = PythonPackages(PACKAGES, PythonInterpreter.of_sandbox())
    node = NodePackages(PACKAGES)
    for asked in (python, node):
        asked.lock.parent.mkdir(parents=True, exist_ok=True)
        asked.lock.write_text("locked", "utf-8")
    folder = python._place._of("locked")
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("", "utf-8")
    for number in range(MODULES):
        module = node._place._of("locked") / "node_modules" / f"module-{number}"
        module.mkdir(parents=True)
        (module / "index.js").write_text("", "utf-8")


async def main(rounds: int) -> None:
    """Measure, print the fastest run of each, and hold it against the goal."""
    with tempfile.TemporaryDirectory() as base:
        home, tree = Path(base, "home"), Path(base, "skill")
        for folder in (Path(base), home, tree):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        make_cached(home)
        (tree / "skill.py").write_text(SCRIPT, "utf-8")
        grants = {
            "nothing": SkillGrant(),
            "Python packages": SkillGrant(PACKAGES),
            "npm packages": SkillGrant((), PACKAGES),
            "programs": SkillGrant((), (), ("soffice", "pdftotext", "git")),
        }
        policy = Policy()
        backend = choose_backend(policy)
        times: dict[str, list[float]] = {name: [] for name in grants}
        for turn in range(rounds + 1):
            for name in random.sample(list(grants), len(grants)):
                started = time.perf_counter()
                request = EnvironmentRequest("skill.py", grants[name])
                result = await backend.run(Job(str(tree), "skill.py", b"{}", policy, environment=request))
                assert result.status == "ok", result
                if turn:  # the first of each is not counted
                    times[name].append((time.perf_counter() - started) * 1000)
        fastest = {name: min(values) for name, values in times.items()}
        goals = []
        for name, figure in fastest.items():
            print(f"{name:16} {figure:7.1f} ms  (+{figure - fastest['nothing']:.1f})")
            if name != "nothing":
                goals.append(Goal(f"{name}, cached, more than a run without", figure - fastest["nothing"], 10, "ms"))
        print_goals(goals)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
