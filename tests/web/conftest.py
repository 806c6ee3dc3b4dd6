"""A real browser before a real server: a home of its own, the example skills, and a watch on everything that goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import preloaded
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, sync_playwright
from playwright.sync_api import Request as Asked
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from scripted_models import ScriptedModels

from skillyard.access import Keys
from skillyard.database import Database

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "build/browser"  # of tests that failed
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_CHEAP = (  # no page lives long enough for scripts to be optimized; all is compiled at once, and what is compiled is kept
    "--disable-dev-shm-usage",
    "--js-flags=--no-opt --no-maglev --no-lazy --always-sparkplug",
)
_SHIFTS = """
window.__shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
_FORGET = """() => {
  try { localStorage.clear(); sessionStorage.clear(); return true }
  catch { return false }  // of an error page, or a sandboxed one
}"""


@dataclass
class Site:
    """A running `skillyard serve` over a project of its own."""

    home: Path
    port: int = 0
    known: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    _process: preloaded.Popen | None = None

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
        """Start, on the port it had before, unless it runs."""
        if self._process is not None:
            return
        environment = os.environ | {"HOME": str(self.home), "SKILLYARD_HOME": str(self.home / "data")}
        command = [sys.executable, "-m", "skillyard", "serve", "--json", "--port", str(self.port)]
        with (self.home / "server.log").open("a") as log:
            self._process = preloaded.Popen(
                [*command, *self.options, "--project", str(self.project)], env=environment, stdout=preloaded.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["address"].rpartition(":")[2])

    def ask(self, method: str, path: str, body: object = None, *, raw: bytes = b"", media: str = "application/json") -> Any:
        """The JSON that a route answers, as a program asks it."""
        data = raw or (json.dumps(body).encode() if body is not None else None)
        request = Request(f"{self.address}{path}", data, {"Content-Type": media}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def clear(self, *collections: str) -> None:
        """Delete all there is in these collections of the API."""
        for path in collections:
            for one in self.ask("GET", path)["data"]:
                self.ask("DELETE", f"{path}/{one.get('id', one.get('name'))}")

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
        for event, listen in self._listeners.items():
            page.on(event, listen)  # type: ignore[call-overload]

    def leave(self, page: Page) -> None:
        """Watch it no more."""
        for event, listen in self._listeners.items():
            page.remove_listener(event, listen)

    def forgive(self, pattern: str) -> None:
        """What this test brings about itself."""
        self._forgiven.append(re.compile(pattern))

    @property
    def trouble(self) -> list[str]:
        """What was seen and not forgiven."""
        return [one for one in self.seen if not any(pattern.search(one) for pattern in self._forgiven)]

    @cached_property
    def _listeners(self) -> dict[str, Callable[[Any], None]]:
        return {"console": self._console, "pageerror": self._error, "request": self._request, "dialog": self._dialog}

    def _error(self, error: Error) -> None:
        self.seen.append(f"error: {error}")

    def _dialog(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

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


class _Chromium:
    """Debian's Chromium, without a window; its headless shell, which has no profiles to keep, where that is installed.

    It stays open from one module of this room to the next; an event loop of its own runs in this thread until it is closed.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """The one that is open, or another one."""
        if self._browser is None or not self._browser.is_connected():
            self.close()
            program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
            assert program is not None, "scripts/system.sh installs it"
            playwright = self._open.enter_context(sync_playwright())
            unboxed = ["--no-sandbox"] if os.geteuid() == 0 else []
            self._browser = playwright.chromium.launch(executable_path=program, args=[*unboxed, *_CHEAP])
            self._open.callback(self._browser.close)
        return self._browser

    def close(self) -> None:
        """End it."""
        self._browser = None
        self._open.close()


_CHROMIUM = _Chromium()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Close the browser when what comes next is of another room."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            _CHROMIUM.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, in which nothing of this module stays open."""
    browser = _CHROMIUM.browser()
    yield browser
    for context in browser.contexts:
        context.close()


def serve(home: Path, settings: str = "", *options: str) -> Site:
    """A server over the example skills, running."""
    site = Site(home, options=options)
    site.configure(settings)
    shutil.copytree(ROOT / "examples/skills", site.project / "skills")
    site.start()
    return site


@pytest.fixture(scope="module")
def models() -> Iterator[ScriptedModels]:
    """A scripted model, where a server of this module looks for one that is started after it."""
    made = ScriptedModels()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.close()


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The server of a module: no test of it may need what another one left, or that nothing was left."""
    made = serve(tmp_path_factory.mktemp("shared") / "site")
    yield made
    made.stop()


@pytest.fixture
def site(shared_site: Site) -> Site:
    """The server of the module, running, whatever the test before did to it."""
    shared_site.start()
    return shared_site


@pytest.fixture(scope="module")
def ruled_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose rules deny one skill and ask about others."""
    made = serve(tmp_path_factory.mktemp("ruled") / "site", '[permissions.skills]\n"text-*" = "deny"\n"data-*" = "ask"\n')
    yield made
    made.stop()


@pytest.fixture
def keyed_site(tmp_path: Path) -> Iterator[Site]:
    """A site that wants keys; `known["key"]` is the one of ada, who manages it."""
    data = tmp_path / "site/data"
    data.mkdir(parents=True)
    with closing(Database.open(str(data))) as database:
        key = Keys(lambda: database).create("ada", ["admin"])[1]
    made = serve(tmp_path / "site", "", "--require-keys")
    made.known["key"] = key
    yield made
    made.stop()


Open = Callable[..., Page]


@pytest.fixture(scope="session")
def readable() -> Callable[[Page], None]:
    """Fails where a page cannot be used by everybody, as axe finds it."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page: Page) -> None:
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [finding for finding in found if finding["impact"] in ("serious", "critical")]
        assert not serious, "\n".join(
            f"{finding['id']}: {finding['help']}\n  "
            + "\n  ".join(node["html"][:200] + str(node["any"][:1]) for node in finding["nodes"])
            for finding in serious
        )

    return check


_CUT = """() => {
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.data.trim() || !node.parentElement.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2) continue;
    for (let outer = node.parentElement; outer && outer !== document.body; outer = outer.parentElement) {
      const style = getComputedStyle(outer);
      const edge = outer.getBoundingClientRect();
      const reachable = /auto|scroll/.test(style.overflowX) || style.textOverflow === "ellipsis";
      if (reachable || style.position === "fixed" || edge.width < 2) break;
      if (/hidden|clip/.test(style.overflowX) && (box.right > edge.right + 1 || box.left < edge.left - 1)) {
        found.add(`${node.data.trim().slice(0, 60)}: ${box.left} to ${box.right} in ${outer.className}`);
        break;
      }
    }
  }
  const pen = document.createElement("canvas").getContext("2d");
  for (const select of document.querySelectorAll("select")) {
    const style = getComputedStyle(select);
    const label = select.selectedOptions[0]?.label ?? "";
    const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    pen.font = style.font;
    const takes = pen.measureText(label).width;
    const whole = takes <= room + 1 || style.textOverflow === "ellipsis";
    if (select.checkVisibility() && !whole) found.add(`${label}: ${takes} in ${room} of ${select.ariaLabel}`);
  }
  return [...found];
}"""


@pytest.fixture(scope="session")
def uncut() -> Callable[[Page], None]:
    """Fails where a text goes on behind the edge of a card, window or choice that neither scrolls nor shows an ellipsis."""

    def check(page: Page) -> None:
        # The page lays itself out anew a frame or more after the window's size changed.
        with suppress(PlaywrightTimeout):
            page.wait_for_function(f"() => ({_CUT})().length === 0", timeout=5_000)
        assert page.evaluate(_CUT) == []

    return check


@dataclass
class Visitor:
    """A tab of a browser with a memory of its own: cookies, storage and the cache of what it has loaded."""

    site: Site
    page: Page
    watch: Watch
    fresh: bool

    def reset(self) -> bool:
        """Forget all but the cache, as if the next one came for the first time; whether that was possible."""
        self.watch.leave(self.page)
        context = self.page.context
        if self.fresh or len(context.pages) > 1 or not self.page.evaluate(_FORGET):
            return False
        self.page.unroute_all()
        context.clear_cookies()
        try:  # a page of the same server: one of another would end the process that draws, and make a new one
            self.page.goto(f"{self.site.address}/healthz")
        except Error:  # the test has stopped the server
            return False
        return True


def _new_page(browser: Browser, site: Site, language: str) -> Page:
    context = browser.new_context(
        base_url=site.address,
        locale=language,
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.add_init_script(_SHIFTS)
    context.set_default_timeout(15_000)
    return context.new_page()


@pytest.fixture(scope="module")
def idle_pages(browser: Browser) -> dict[tuple[str, str], list[Page]]:
    """Pages that a test of this module has given back, by address and language: a new one takes a process and a profile."""
    return {}


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser, idle_pages: dict[tuple[str, str], list[Page]]) -> Iterator[Open]:
    """Give a function that opens a page of a site as a new visitor; whatever goes wrong on it fails the test.

    Visitors of one module share what they have loaded, unless they are to be `fresh`.
    """
    visitors: list[tuple[tuple[str, str], Visitor]] = []

    def open_page(
        site: Site,
        path: str = "/",
        *,
        scheme: str = "light",
        language: str = "en-US",
        width: int = 1280,
        fresh: bool = False,
    ) -> Page:
        idle = [] if fresh else idle_pages.setdefault((site.address, language), [])
        page = idle.pop() if idle else _new_page(browser, site, language)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 860})
        watch = Watch(site.address)
        watch.over(page)
        page.watch = watch  # type: ignore[attr-defined]
        visitors.append(((site.address, language), Visitor(site, page, watch, fresh)))
        page.goto(path)
        return page

    yield open_page
    failed = request.node.stash.get(_FAILED, True)
    if failed:
        PICTURES.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", request.node.name)
        for number, page in enumerate(page for _, visitor in visitors for page in visitor.page.context.pages):
            page.screenshot(path=PICTURES / f"{name}-{number}.png", full_page=True)
    trouble = [one for _, visitor in visitors for one in visitor.watch.trouble]
    for key, visitor in visitors:
        if not (failed or trouble) and visitor.reset():
            idle_pages[key].append(visitor.page)
        else:
            visitor.page.context.close()
    assert not trouble, "\n".join(trouble)
