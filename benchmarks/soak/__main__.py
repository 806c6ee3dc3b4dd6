"""`python -m benchmarks.soak --seconds 60 --seed 7`: ends with 1 when something was lost, doubled or left over."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import tempfile
from pathlib import Path

from benchmarks.soak.leaving import adopt_orphans
from benchmarks.soak.plan import Plan
from benchmarks.soak.report import Report
from benchmarks.soak.soaking import soak


def main() -> int:
    """Soak, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of faults (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=0, help="end the faults already when so many runs were accepted")
    parser.add_argument("--seed", type=int, default=None, help="the same faults as a soak before (default: a new one)")
    parser.add_argument("--clients", type=int, default=6, help="who ask at once (default: %(default)s)")
    parser.add_argument("--servers", type=int, default=3, help="behind the proxy (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="of the pool (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=1.2, help="seconds between two faults on average (default: %(default)s)")
    parser.add_argument(
        "--settle", type=float, default=120, help="seconds in which all must be well again (default: %(default)s)"
    )
    parser.add_argument("--report", metavar="FILE", help="write the report there, as JSON")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="do it in this folder, which must not exist, and leave it with all logs"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    plan = Plan(
        seed, options.seconds, options.runs, options.clients, options.servers, options.workers, options.pace, options.settle
    )  # fmt: skip
    adopt_orphans()
    folder = Path(options.keep) if options.keep else Path(tempfile.mkdtemp(prefix="skillyard-soak-", dir="/tmp"))
    folder.mkdir(mode=0o755, exist_ok=not options.keep)
    try:
        report = asyncio.run(_stoppable(plan, folder))
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if options.report:
        Path(options.report).write_text(json.dumps(report.to_dict(), indent=1) + "\n")
    print(report.text())
    return 0 if report.good else 1


async def _stoppable(plan: Plan, folder: Path) -> Report:
    """The soak, which takes everything along when it is told to stop."""
    soaking = asyncio.ensure_future(soak(plan, folder, lambda text: print(text, flush=True)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, soaking.cancel)
    return await soaking


if __name__ == "__main__":
    raise SystemExit(main())
