"""A real browser before a real server: a home of its own, the example skills, and a watch on everything that goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from playwright.sync_api import Request as Asked

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "build/browser"  # of tests that failed
_SHIFTS = """
window.__shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@dataclass
class Site:
    """A running `skillyard serve` over a project of its own."""

    home: Path
    port: int = 0
    known: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def project(self) -> Path:
        """The folder whose skills and settings it serves."""
        return self.home / "project"

    def configure(self, settings: str = "") -> None:
        """Write the settings of the project; the server reads them when it starts."""
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / "skillyard.toml").write_text(f'[skills]\npaths = ["skills"]\n{settings}', "utf-8")

    def start(self) -> None:
        """Start, on the port it had before."""
        environment = os.environ | {"HOME": str(self.home), "SKILLYARD_HOME": str(self.home / "data")}
        command = [sys.executable, "-m", "skillyard.cli", "serve", "--json", "--port", str(self.port)]
        with (self.home / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--project", str(self.project)], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["address"].rpartition(":")[2])

    def ask(self, method: str, path: str, body: object = None, *, raw: bytes = b"", media: str = "application/json") -> Any:
        """The JSON that a route answers, as a program asks it."""
        data = raw or (json.dumps(body).encode() if body is not None else None)
        request = Request(f"{self.address}{path}", data, {"Content-Type": media}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, gently or not."""
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


@dataclass
class Watch:
    """What no page may do: write errors to the console, fail, ask another host, or open a dialog of the browser."""

    address: str
    seen: list[str] = field(default_factory=list)
    _forgiven: list[re.Pattern[str]] = field(default_factory=list)

    def over(self, page: Page) -> None:
        """Watch a page from now on."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("dialog", lambda dialog: (self.seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def forgive(self, pattern: str) -> None:
        """What this test brings about itself."""
        self._forgiven.append(re.compile(pattern))

    @property
    def trouble(self) -> list[str]:
        """What was seen and not forgiven."""
        return [one for one in self.seen if not any(pattern.search(one) for pattern in self._forgiven)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.seen.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Asked) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self.seen.append(f"request: {request.url}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether their test failed."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert program is not None, "scripts/system.sh installs it"
    with sync_playwright() as playwright:
        unboxed = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=[*unboxed, "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def serve(home: Path, settings: str = "") -> Site:
    """A server over the example skills, running."""
    site = Site(home)
    site.configure(settings)
    shutil.copytree(ROOT / "examples/skills", site.project / "skills")
    site.start()
    return site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server for this test alone."""
    made = serve(tmp_path / "site")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server for tests that only look."""
    made = serve(tmp_path_factory.mktemp("shared") / "site")
    yield made
    made.stop()


Open = Callable[..., Page]


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Open]:
    """Give a function that opens a page of a site as a new visitor; whatever goes wrong on it fails the test."""
    contexts: list[tuple[BrowserContext, Watch]] = []

    def open_page(site: Site, path: str = "/", *, scheme: str = "light", language: str = "en-US", width: int = 1280) -> Page:
        context = browser.new_context(
            base_url=site.address,
            color_scheme=scheme,  # type: ignore[arg-type]
            locale=language,
            viewport={"width": width, "height": 860},
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.add_init_script(_SHIFTS)
        context.set_default_timeout(15_000)
        page = context.new_page()
        watch = Watch(site.address)
        watch.over(page)
        page.watch = watch  # type: ignore[attr-defined]
        contexts.append((context, watch))
        page.goto(path)
        return page

    yield open_page
    if request.node.stash.get(_FAILED, True):
        PICTURES.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", request.node.name)
        for number, page in enumerate(page for context, _ in contexts for page in context.pages):
            page.screenshot(path=PICTURES / f"{name}-{number}.png", full_page=True)
    trouble = [one for _, watch in contexts for one in watch.trouble]
    for context, _ in contexts:
        context.close()
    assert not trouble, "\n".join(trouble)
