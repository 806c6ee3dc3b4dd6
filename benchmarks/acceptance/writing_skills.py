"""internal-comms, doc-coauthoring, skill-creator and the template: documents and skills."""

from __future__ import annotations

import sys
import zipfile

from benchmarks.acceptance.model import ScriptedModel, expect
from benchmarks.acceptance.opening import run_program

_UPDATE = """🌊 Tides Team (16 to 20 November)
Progress: Shipped the forecast for 40 harbours; errors fell from 12 cm to 7 cm.
Plans: Cover the remaining 25 harbours and alert on storm surges.
Problems: Two gauges in Kiel are down until Thursday.
"""


async def internal_comms(model: ScriptedModel) -> str:
    """A 3P update after the guideline for it."""
    await model.load()
    guideline = await model.skill_file("examples/3p-updates.md")
    expect("Progress" in guideline and "Problems" in guideline, "the guideline is another")
    await model.write("update.md", _UPDATE)
    page = run_program(
        "pandoc", "--from=markdown+hard_line_breaks", "--to=plain", "--wrap=none", str(model.product("update.md"))
    )
    lines = [line.partition(":")[0] for line in page.splitlines() if line.strip()]
    expect(lines[1:] == ["Progress", "Plans", "Problems"], f"pandoc reads {lines}")
    return "the update has its four lines in pandoc"


async def doc_coauthoring(model: ScriptedModel) -> str:
    """A document grows from placeholders, section by section, by edits."""
    await model.load()
    scaffold = "# Moving the forecasts\n\n## Decision\n\n[To be written]\n\n## Risks\n\n[To be written later]\n"
    await model.write("decision-doc.md", scaffold)
    await model.edit("decision-doc.md", "[To be written]", "We move the forecasts to the **new model** in January.")
    await model.edit(
        "decision-doc.md", "[To be written later]", "- Two gauges have no history.\n- Nobody is on call in the nights."
    )
    await model.use("file_search", pattern=r"\[To be written", path="decision-doc.md")
    page = run_program("pandoc", "--to=html", str(model.product("decision-doc.md")))
    expect(page.count("<h2") == 2 and page.count("<li>") == 2 and "To be written" not in page, f"pandoc makes {page}")
    return "both sections filled, headings and list in pandoc"


_NEW_SKILL = """---
name: tide-notes
description: Writes short notes about tides for sailors. Use when somebody asks about high water, low water or a safe depth.
---

# Tide notes

1. Run `python scripts/height.py LOW HIGH HOUR` for the height at an hour.
2. Say the height in metres, and when the next high water is.

Example: with low water at 0.4 m and high water at 3.2 m the height half way is 1.8 m.
"""
_SCRIPT = '''"""The height of the water between low and high water."""

import math
import sys


def height(low: float, high: float, hour: float) -> float:
    """The height in metres, `hour` hours after low water."""
    return (low + high) / 2 - (high - low) / 2 * math.cos(math.pi * hour / 6.2)


if __name__ == "__main__":
    print(round(height(*(float(word) for word in sys.argv[1:4])), 2))
'''


async def skill_creator(model: ScriptedModel) -> str:
    """A skill is written, validated and packed by the scripts of the skill."""
    await model.load()
    await model.write("tide-notes/SKILL.md", _NEW_SKILL)
    await model.write("tide-notes/scripts/height.py", _SCRIPT)
    expect(await model.bash("cd tide-notes && python scripts/height.py 0.4 3.2 3.1; cd ..") == "1.8", "the new script is wrong")
    reported = await model.bash("cd {skill} && python -m scripts.quick_validate /workspace/tide-notes; cd /workspace")
    expect("valid" in reported, f"quick_validate says {reported!r}")
    await model.bash("cd {skill} && python -m scripts.package_skill /workspace/tide-notes /workspace/dist; cd /workspace")
    with zipfile.ZipFile(model.product("dist/tide-notes.skill")) as archive:
        expect("tide-notes/SKILL.md" in archive.namelist(), f"the package holds {archive.namelist()}")
    _check(model, "tide-notes")
    return "quick_validate and `check` find it fine; the package opens"


async def template_skill(model: ScriptedModel) -> str:
    """The template is copied and filled in."""
    await model.load()
    await model.bash("mkdir tide-notes && cp {skill}/SKILL.md tide-notes/ && chmod u+w tide-notes/SKILL.md")
    await model.edit("tide-notes/SKILL.md", "name: template-skill", "name: tide-notes")
    await model.edit(
        "tide-notes/SKILL.md",
        "description: Replace with description of the skill and when Claude should use it.",
        "description: Writes short notes about tides. Use when somebody asks about high or low water.",
    )
    await model.edit("tide-notes/SKILL.md", "# Insert instructions below", "# Tide notes\n\nSay the height in metres first.")
    _check(model, "tide-notes")
    return "`check` finds the filled template fine"


def _check(model: ScriptedModel, folder: str) -> None:
    """What `skillyard check` finds: nothing."""
    reported = run_program(sys.executable, "-m", "skillyard", "check", "--no-color", "--no-cache", str(model.folder / folder))
    expect("1 of 1 file is fine" in reported and "0 warnings" in reported, f"check finds: {reported[-300:]}")
