"""How often the scanner is right: recall on skills with harm and false alarms on skills without, by family, with intervals.

    python -m benchmarks.scanner --harmful NAME=GLOB ... --benign NAME=GLOB ... [--apart NAME=GLOB] [--half judged]

Each folder that a glob matches is one skill, whatever is in it; `NAME` is its family. `--apart` are skills whose label
depends on a conversation: they are reported and not counted. Rules are written with `--half rules` and judged with
`--half judged`; a hash of the folder's name says which half a skill is in, so that nobody chooses. `--missed` lists
what was not found and what was found in error, which is only for the half that rules are written on. Nothing is
downloaded, and nothing is run but with `--run N`: then N skills of each family are watched too, in the sandbox and nowhere
else, the first in the order of a hash of their names; the tables are about these, by what was found by reading, by watching,
and by both, and say how many had something to run.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from skillyard.errors import SkillyardError
from skillyard.scanner import SEVERITIES, scan_skill, watch_skill

LEVELS = ("high", "medium", "low")
LABELS = ("_expected.json", "_meta.json", "source_meta.json", "audit.json")
"""What collections write beside a skill about it: where it is from, and whether it is one with harm."""


@dataclass(frozen=True)
class Scanned:
    """One skill: where it is, which half it belongs to, and the rules that found something, each with its gravest severity."""

    folder: str
    half: str
    rules: dict[str, str]
    seconds: float
    error: str = ""
    watched_seconds: float = 0.0
    commands: int = 0
    """What was run of it: scripts, and blocks of commands."""
    complete: bool = True

    def flagged(self, level: str, by: str = "both") -> bool:
        """Whether there is a finding at a level or above, by reading, by watching, or by `both`."""
        return any(
            SEVERITIES.index(found) <= SEVERITIES.index(level)
            for rule, found in self.rules.items()
            if by == "both" or rule.startswith("watched-") == (by == "watching")
        )


def main() -> None:
    """Scan and print the tables."""
    parser = argparse.ArgumentParser(description="recall and false alarms of the scanner")
    for kind in ("harmful", "benign", "apart"):
        parser.add_argument(f"--{kind}", action="append", default=[], metavar="NAME=GLOB", help=f"a family of {kind} skills")
    parser.add_argument("--half", choices=("rules", "judged", "both"), default="both", help="which skills are looked at")
    parser.add_argument("--missed", action="store_true", help="list misses and false alarms by folder")
    parser.add_argument("--save", type=Path, help="write what was found in each skill as JSON")
    parser.add_argument("--run", type=int, default=0, metavar="N", help="watch so many skills of each family, too")
    parser.add_argument("--jobs", type=int, default=1, help="scans at the same time")
    given = parser.parse_args()
    kept: dict[str, list[dict[str, object]]] = {}
    for kind in ("harmful", "benign", "apart"):
        asked = [one.partition("=") for one in getattr(given, kind)]
        families = {name: scanned(pattern, given.half, given.jobs, given.run) for name, _, pattern in asked}
        for name, skills in families.items():
            describe(kind, name, skills, missed=given.missed)
            kept[f"{kind}/{name}"] = [asdict(skill) for skill in skills]
        if len(families) > 1:
            describe(kind, "together", [skill for skills in families.values() for skill in skills])
    if given.save:
        given.save.write_text(json.dumps(kept, indent=1), "utf-8")


def half_of(name: str) -> str:
    """The half that a skill belongs to, by its folder's name alone."""
    return "rules" if hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[0] % 2 else "judged"


def scanned(pattern: str, half: str, jobs: int, run: int = 0) -> list[Scanned]:
    """Every skill of a family that is in the half; or `run` of them, which are watched too."""
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 # a pattern that may begin anywhere
    folders = [folder for folder in matches if Path(folder).is_dir()]
    chosen = [folder for folder in folders if half in ("both", half_of(Path(folder).name))]
    if run:
        chosen.sort(key=lambda folder: hashlib.sha256(os.fsencode(Path(folder).name)).digest())
        return [scan_one(folder, run=True) for folder in chosen[:run]]
    if jobs == 1:
        return [scan_one(folder) for folder in chosen]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(scan_one, chosen, chunksize=8))


def scan_one(folder: str, *, run: bool = False) -> Scanned:
    """What the scanner finds in one folder."""
    rules: dict[str, str] = {}
    started, error, watched = time.perf_counter(), "", None
    try:
        with as_skill(folder) as skill:
            if run:
                watched = watch_skill(skill, keep=False, again=True)
                started = time.perf_counter()
            for found in scan_skill(skill, watched=watched).findings:
                rules.setdefault(found.rule, found.severity)
    except (OSError, SkillyardError) as problem:
        error = str(problem)
    spent, half = time.perf_counter() - started, half_of(Path(folder).name)
    if watched is None:
        return Scanned(folder, half, rules, spent, error)
    return Scanned(folder, half, rules, spent, error, watched.seconds, len(watched.commands), watched.complete)


@contextmanager
def as_skill(folder: str) -> Iterator[str]:
    """The folder, or a copy without labels in which a text that stands alone is SKILL.md, as those who collected it mean it."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    labels = [path for path in files if path.name in LABELS]
    texts = [path for path in files if path.suffix == ".md"]
    alone = len(texts) == 1 and len(files) == len(labels) + 1 and texts[0].name.lower() != "skill.md"
    if not labels and not alone:
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, Path(folder).name)
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*LABELS))
        if alone:
            (copy / texts[0].relative_to(folder)).rename(copy / "SKILL.md")
        yield str(copy)


def describe(kind: str, name: str, skills: Sequence[Scanned], *, missed: bool = False) -> None:
    """Print one family."""
    if not skills:
        print(f"\n{kind} {name}: no skill")
        return
    seconds = sum(skill.seconds for skill in skills)
    slowest = max(skills, key=lambda skill: skill.seconds)
    speed = f"{seconds / len(skills) * 1000:.0f} s for 1,000, the slowest {slowest.seconds:.1f} s"
    print(f"\n{kind} {name}: {len(skills)} skills, {speed}")
    run = [skill for skill in skills if skill.commands]
    if run:
        times = sorted(skill.watched_seconds for skill in run)
        print(
            f"  run: {len(run)}, {sum(not skill.complete for skill in run)} of them not in every round; "
            f"seconds: half within {times[len(times) // 2]:.1f}, the slowest {times[-1]:.1f}"
        )
    for level in LEVELS:
        for by in ("reading", "watching", "both") if run else ("both",):
            flagged = sum(skill.flagged(level, by) for skill in skills)
            print(f"  at {level:6} and above{', by ' + by if run else ''}: {share(flagged, len(skills))}")
    found = Counter(rule for skill in skills for rule, severity in skill.rules.items() if severity in ("high", "medium"))
    if found:
        print("  rules at medium and above: " + ", ".join(f"{rule} {number}" for rule, number in found.most_common(15)))
    for skill in skills:
        if skill.error:
            print(f"  {skill.folder}: {skill.error}")
        elif missed and skill.flagged("medium") == (kind == "benign"):
            said = ", ".join(
                f"{rule} {severity}"
                for rule, severity in skill.rules.items()
                if kind != "benign" or severity in ("high", "medium")
            )
            print(f"    {skill.folder}: {said or 'nothing'}")


def share(part: int, whole: int) -> str:
    """A share with what it is a share of, and its 95 % interval."""
    low, high = interval(part, whole)
    return f"{part}/{whole} = {part / whole:.1%} ({low:.1%} to {high:.1%})"


def interval(part: int, whole: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson's score interval)."""
    middle = (part + z * z / 2) / (whole + z * z)
    reach = z * math.sqrt(part * (whole - part) / whole + z * z / 4) / (whole + z * z)
    return max(0.0, middle - reach), min(1.0, middle + reach)


if __name__ == "__main__":
    main()
