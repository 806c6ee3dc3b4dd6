"""How often the scanner is right: precision and recall on a labelled folder, false alarms on skills that are known to be fine.

    python benchmarks/scanner.py FOLDER [--fine FOLDER]... [--others FOLDER]...

`FOLDER` holds skills with an `_expected.json` beside SKILL.md: `expected_safe` or `is_malicious`, and `expected_findings`,
a list with a `category` each; a skill without one is labelled by a folder `malicious` or `safe` above it. So are the evaluation
skills of cisco-ai-defense/skill-scanner. `--fine` are skills without harm, `--others` collections nobody labelled. Nothing is
downloaded, nothing is run. Of the two halves neither is unseen any more: docs/scanning.md says what was measured before.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillyard.errors import SkillyardError
from skillyard.scanner import RULES, Finding, at_least_severity, scan_skill

FITTING = {
    "prompt_injection": {"prompt injection", "hidden text"},
    "data_exfiltration": {"credentials", "data flow", "network"},
    "hardcoded_secrets": {"credentials", "data flow"},
    "command_injection": {"dangerous calls", "download and run", "obfuscation"},
    "obfuscation": {"obfuscation", "hidden text"},
    "malware": {"obfuscation", "download and run"},
    "unauthorized_tool_use": {"permissions", "network"},
    "resource_abuse": {"resource abuse"},
}
"""Which of our subjects answer to a category of the labels; no rules look for the others, which count as missed."""


@dataclass(frozen=True)
class Labelled:
    """One skill, what its label says, and what the scanner found."""

    path: str
    safe: bool
    categories: frozenset[str]
    findings: tuple[Finding, ...]

    def flagged(self, level: str) -> bool:
        """Whether there is a finding at a level or above."""
        return bool(at_least_severity(self.findings, level))  # type: ignore[arg-type] # one of the severities

    @property
    def subjects(self) -> set[str]:
        """What the findings that are more than notes are about."""
        return {RULES[found.rule].subject for found in at_least_severity(self.findings, "low")}


def main() -> None:
    """Scan and print the tables."""
    parser = argparse.ArgumentParser(description="precision, recall and false alarms of the scanner")
    parser.add_argument("labelled", type=Path, help="a folder of skills with labels")
    parser.add_argument("--fine", type=Path, action="append", default=[], help="a folder of skills without harm")
    parser.add_argument("--others", type=Path, action="append", default=[], help="a folder of skills without labels")
    given = parser.parse_args()
    skills = list(labelled(given.labelled))
    for title, part in (("all", skills), ("first, third, …", skills[::2]), ("second, fourth, …", skills[1::2])):
        print(f"\n{title}: {len(part)} skills, {sum(not skill.safe for skill in part)} with harm")
        for level in ("high", "medium", "low"):
            print(f"  a skill counts as found at {level:6} {verdicts(part, level)}")
        categories(part)
    for folder in (*given.fine, *given.others):
        rate(folder)


def labelled(folder: Path) -> Iterable[Labelled]:
    """Every labelled skill below a folder, in the order of paths."""
    for skill_md in sorted(folder.rglob("SKILL.md")):
        directory, label = skill_md.parent, {}
        if (expected := directory / "_expected.json").is_file():
            label = json.loads(expected.read_text("utf-8"))
        elif not {"malicious", "safe"} & set(directory.parts):
            continue
        safe = label.get("expected_safe", not label["is_malicious"] if "is_malicious" in label else "safe" in directory.parts)
        wanted = frozenset(found["category"] for found in label.get("expected_findings", ()))
        findings = tuple(found for found in scan_skill(directory).findings if found.file != "_expected.json")
        yield Labelled(str(directory.relative_to(folder)), safe, wanted, findings)


def verdicts(skills: Sequence[Labelled], level: str) -> str:
    """Precision and recall of the verdict on whole skills."""
    right = sum(skill.flagged(level) for skill in skills if not skill.safe)
    wrong = [skill.path for skill in skills if skill.safe and skill.flagged(level)]
    missed = [skill.path for skill in skills if not skill.safe and not skill.flagged(level)]
    said = f"precision {ratio(right, right + len(wrong))}, recall {ratio(right, right + len(missed))}"
    return said + (f"; missed {', '.join(missed)}" if missed else "") + (f"; wrong {', '.join(wrong)}" if wrong else "")


def categories(skills: Sequence[Labelled]) -> None:
    """Recall for each category of each skill; precision over the subjects of findings in skills that list categories."""
    wanted, found, told, fits = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for skill in skills:
        if not (skill.categories or skill.safe):
            continue  # harmful, and nobody wrote down how
        for category in skill.categories:
            wanted[category] += 1
            found[category] += bool(FITTING.get(category, set()) & skill.subjects)
        for subject in skill.subjects:
            told[subject] += 1
            fits[subject] += any(subject in FITTING.get(category, set()) for category in skill.categories)
    for category in sorted(wanted):
        without = "" if category in FITTING else "  (no rules look for it)"
        print(f"    {category:24} recall {ratio(found[category], wanted[category])}{without}")
    known = [category for category in wanted if category in FITTING]
    print(f"    {'all with rules':24} recall {ratio(sum(found[c] for c in known), sum(wanted[c] for c in known))}")
    print(f"    {'all categories':24} recall {ratio(sum(found.values()), sum(wanted.values()))}")
    for subject in sorted(told):
        print(f"    {subject:24} precision {ratio(fits[subject], told[subject])}")
    print(f"    {'all subjects':24} precision {ratio(sum(fits.values()), sum(told.values()))}")


def rate(folder: Path) -> None:
    """How many skills of a folder have findings, at which level, and how long a scan takes."""
    count, loud, quiet, rules = 0, 0, 0, Counter[str]()
    started, slowest = time.perf_counter(), (0.0, "")
    for skill_md in sorted(folder.rglob("SKILL.md")):
        before = time.perf_counter()
        try:
            findings = scan_skill(skill_md.parent).findings
        except (OSError, SkillyardError) as error:
            print(f"  {skill_md.parent}: {error}")
            continue
        slowest = max(slowest, (time.perf_counter() - before, skill_md.parent.name))
        high = at_least_severity(findings, "high")
        count, loud, quiet = count + 1, loud + bool(high), quiet + (not at_least_severity(findings, "medium"))
        rules.update({found.rule for found in high})
    took = time.perf_counter() - started
    print(f"\n{folder}: {count} skills in {took:.1f} s, the slowest ({slowest[1]}) {slowest[0]:.2f} s")
    print(f"  with a finding at high {ratio(loud, count)}; with nothing at medium or above {ratio(quiet, count)}")
    if rules:
        print("  at high: " + ", ".join(f"{rule} {number}" for rule, number in rules.most_common(12)))


def ratio(part: int, whole: int) -> str:
    """A share with what it is a share of."""
    return f"{part}/{whole} ({part / whole:.0%})" if whole else "–"


if __name__ == "__main__":
    main()
