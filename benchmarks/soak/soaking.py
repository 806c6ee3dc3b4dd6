"""One soak from start to report: build, ask and break, heal, wait, count, stop, look what is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.soak.asking import Acknowledged, ask
from benchmarks.soak.chaos import Chaos
from benchmarks.soak.counting import Findings, count, settled
from benchmarks.soak.leaving import leavings, stop_all
from benchmarks.soak.plan import Plan
from benchmarks.soak.report import Report
from benchmarks.soak.site import Site, running_site

__all__ = ["soak"]

Say = Callable[[str], object]


async def soak(plan: Plan, folder: Path, say: Say) -> Report:
    """Do it in an empty folder; `say` is told how far it is."""
    say(f"seed {plan.seed}: building the site in {folder}")
    async with running_site(folder, plan) as site:
        say(f"{len(site.parts)} parts behind {site.address}; faults for {plan.seconds:.0f} s")
        reported, chaos, begun = Acknowledged(), Chaos(site), time.monotonic()
        try:
            await _break(site, reported, chaos)
            took = time.monotonic() - begun
            say(f"{len(reported.runs)} runs accepted; waiting until all has ended")
            recovered = await settled(site)
            say(f"that took {recovered:.1f} s; a last round")
            slow = await _last_round(site, reported)
            found = await asyncio.to_thread(count, site, reported)
            found.left += slow
            say("stopping everything")
            found.left += await stop_all(site)
            found.left += await leavings(site)
        finally:
            (folder / "faults.log").write_text("\n".join(chaos.log) + "\n")
    return _report(plan, took, recovered, reported, chaos, found, site)


async def _break(site: Site, reported: Acknowledged, chaos: Chaos) -> None:
    """Ask and break at once, as long as the plan says."""
    no_more_faults, no_more_questions = asyncio.Event(), asyncio.Event()
    breaking = asyncio.create_task(chaos.go_on(no_more_faults))
    asking = [
        asyncio.create_task(ask(site.address, site.plan, number, reported, no_more_questions))
        for number in range(site.plan.clients)
    ]
    end = time.monotonic() + site.plan.seconds
    while time.monotonic() < end and not (site.plan.runs and len(reported.runs) >= site.plan.runs) and not breaking.done():
        await asyncio.sleep(0.2)
    no_more_faults.set()
    await breaking
    no_more_questions.set()
    await site.heal()
    await asyncio.gather(*asking)


async def _last_round(site: Site, reported: Acknowledged) -> list[str]:
    """Start a server and a worker anew, and let each kind of run work once more: what was killed is cleared up by that."""
    slow = []
    for part in (site.servers()[0], site.workers()[0]):
        if not await part.stop():
            slow.append(f"{part.name} did not stop in half a minute")
        await part.start()
    await site.servers()[0].ready()
    stop = asyncio.Event()
    asking = [asyncio.create_task(ask(site.address, site.plan, 1000 + number, reported, stop)) for number in range(4)]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), 3)
    stop.set()
    await asyncio.gather(*asking)
    await settled(site)
    return slow


def _report(
    plan: Plan, took: float, recovered: float, reported: Acknowledged, chaos: Chaos, found: Findings, site: Site
) -> Report:
    return Report(
        seed=plan.seed,
        seconds=round(took, 1),
        recovered_s=round(recovered, 1),
        accepted=len(reported.runs),
        installed=len(reported.installs),
        states=found.states,
        remembered=found.remembered,
        faults=dict(chaos.done),
        answers=dict(reported.answers),
        starts={name: part.starts for name, part in site.parts.items()},
        unanswered=reported.given_up,
        lost=found.lost,
        doubled=found.doubled,
        left=found.left,
        strange=reported.strange,
    )
