"""How long the page takes until somebody sees skills, and how many bytes that is: in Chromium, with nothing kept from before.

`python -m benchmarks.first_view [--skills 200] [--rounds 9]`. Each round opens, in turns and each time as a browser that was
never here, the list of skills and a document of the same server that is nothing but text: what is above that is the page's own.
With `--line phone` there are 1.6 Mbit/s and 150 ms from a request to its answer, with `--line poor` 400 kbit/s and 400 ms; on
both the processor is four times slower, as that of a telephone. Chromium adds the way to each request, none to the connection.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures.goals import Goal, print_goals
from benchmarks.server import collection

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"
_SEEN = "() => [...document.querySelectorAll('main a')].some((link) => link.href.includes('/skills/'))"
_TEXT = "() => document.body?.innerText.length > 0"
_TIMES = """() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return {
    drawn: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
    seen: performance.now(),
    bytes: all.reduce((sum, entry) => sum + entry.transferSize, 0),
    script: all.filter((entry) => entry.name.endsWith(".js")).reduce((sum, entry) => sum + entry.encodedBodySize, 0),
    requests: all.length,
  };
}"""


@contextlib.contextmanager
def serving(skills: Path) -> Iterator[str]:
    """A server over the skills: its address."""
    command = [sys.executable, "-m", "skillyard", "serve", "--root", str(skills), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


LINES = {  # milliseconds from a request to its answer, and bytes a second
    "phone": {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 94_000},
    "poor": {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000},
}
_SLOWER = 4


def view(browser: Browser, address: str, until: str, line: str | None) -> dict[str, Any]:
    """Milliseconds and bytes of one view by a browser that keeps nothing; it ends when `until` holds."""
    context = browser.new_context()
    page = context.new_page()
    if line is not None:
        session = context.new_cdp_session(page)
        session.send("Network.emulateNetworkConditions", LINES[line])
        session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    page.goto(address, wait_until="commit")
    page.wait_for_function(until, polling="raf")
    reported: dict[str, Any] = page.evaluate(_TIMES)
    context.close()
    return reported


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skills", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--line", choices=LINES, help="a slow line and processor (default: those of this machine)")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "SKILLYARD_HOME": f"{scratch}/home", "XDG_CONFIG_HOME": f"{scratch}/.config"}
        with serving(collection(Path(scratch), options.skills)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page, floor = [], []
            for _ in range(options.rounds + 1):
                page.append(view(browser, f"{address}/skills", _SEEN, options.line))
                floor.append(view(browser, f"{address}/healthz", _TEXT, options.line))
            browser.close()
    middle = {key: statistics.median(reported[key] for reported in page[1:]) for key in page[0]}
    bare = statistics.median(reported["seen"] for reported in floor[1:])
    print(f"first view of {options.skills} skills, {options.rounds} rounds: p50 in milliseconds")
    print(f"something is drawn {middle['drawn']:.0f}, skills are seen {middle['seen']:.0f}; a document of text {bare:.0f}")
    print(
        f"{middle['requests']:.0f} requests, {middle['bytes'] / 1000:.0f} kB sent, {middle['script'] / 1000:.0f} kB of script"
    )
    print_goals(
        (
            Goal("seconds until something is drawn", middle["drawn"] / 1000, 1.5 if options.line else 0.5),
            Goal("seconds until skills are seen", middle["seen"] / 1000, {"phone": 5, "poor": 12}.get(options.line, 1)),
            Goal("kB of compressed script", middle["script"] / 1000, 200),
        )
    )


if __name__ == "__main__":
    main()
