"""Fixtures the tests of every component share: a private home and a maker of skill folders."""

from __future__ import annotations

import functools
import gc
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

os.environ["SKILLYARD_BUILT_IN"] = "off"  # tests say which skills there are; those of the built-in ones take it back

with suppress(ImportError):  # the tests of an ordinary user run with the machine's own Python
    from hypothesis import HealthCheck, settings

    for profile, examples in (("suite", 15), ("long", 500)):
        settings.register_profile(
            profile,  # machines are slow at times, and the fixtures that tests with examples take are not changed by them
            max_examples=examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )
    settings.load_profile("suite")


def _beside(name: str) -> ModuleType:
    """A module next to this one: tests are imported by their files, not as a package."""
    specification = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


_beside("archives")
first_file = _beside("first_file")
_beside("next_release")
_beside("oci_program")
_beside("lazily")
_beside("ordinary_user")
_beside("parsed")
_beside("pattern_growth")
preloaded = _beside("preloaded")
postgresql_server = _beside("postgresql")
scripted_models = _beside("scripted_models")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`--numprocesses auto`: one for each processor, and those that wait."""
    lanes = _beside("lanes")
    return int(lanes.processors() + lanes.WAITING)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What computes and what waits is shared out from two ends (`tests/lanes.py`)."""
    return _beside("lanes").Lanes(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--long`, which `make test-long` gives."""
    parser.addoption("--long", action="store_true", help="only the tests that are marked long, and many examples of properties")


def pytest_configure(config: pytest.Config) -> None:
    """Take the profile with many examples, before the modules of the tests are imported; nothing of those becomes garbage.

    The processes of pytest-xdist share the one that has everything loaded for commands.
    """
    if config.getoption("--long"):
        settings.load_profile("long")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        preloaded.share()
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests of this run, keep those that share something of their module in one process, and put what waits to the
    beginning and what computes to the end.
    """
    long = config.getoption("--long")
    chosen, others = [], []
    for item in items:
        marked = item.get_closest_marker("long") is not None
        (chosen if marked == long or (long and _has_examples(item)) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
    tests = Path(__file__).parent
    items[:] = chosen
    if hasattr(config, "workerinput"):  # of pytest-xdist
        place = _beside("lanes").place
        items.sort(key=lambda item: place(item.path.relative_to(tests).parts[0]))
    for item in items:
        if _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(tests).as_posix()))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends the ids
def pytest_collection_finish(session: pytest.Session) -> None:
    """Put the group of a test behind its id, and begin to collect garbage.

    pytest-xdist 3.8 names the groups where pytest 9.2 does not look. Garbage is not looked for among modules and tests, which
    stay until the end.
    """
    if session.config.getoption("loadgroup", default=False):
        for item in session.items:
            _name_group(item)
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    gc.enable()


def _name_group(item: pytest.Item) -> None:
    groups = sorted({mark.args[0] for mark in item.iter_markers("xdist_group")})
    if groups and "@" not in item.nodeid.rpartition("]")[2]:
        known: Any = item
        known._id = type(known.id).parse(f"{item.nodeid}@{'_'.join(groups)}")


def _has_examples(item: pytest.Item) -> bool:
    """Whether it is a property that Hypothesis tries with examples."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def _shares_with_its_module(item: pytest.Item) -> bool:
    """Whether it uses a fixture that is made once for all tests of its module."""
    information = getattr(item, "_fixtureinfo", None)
    if information is None:
        return False
    used = (information.name2fixturedefs.get(name, ())[-1:] for name in information.names_closure)
    return any(one.scope == "module" for last in used for one in last)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """An attack that was not made has not been stopped: a skipped test of the catalogue is a failed one."""
    report = yield
    if report.skipped and item.get_closest_marker("abuse"):
        report.outcome, report.longrepr = "failed", f"an attack of the catalogue was skipped: {report.longrepr}"
    return report


class MakeSkill(Protocol):
    """Writes one skill folder and returns it."""

    def __call__(
        self,
        root: Path,
        name: str,
        *,
        description: str = ...,
        body: str = ...,
        front_matter: str | None = ...,
        raw: bytes | None = ...,
        files: Mapping[str, str | bytes] = ...,
    ) -> Path: ...


@pytest.fixture(scope="session", autouse=True)
def _nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is made once for many tests has no home of a single test, and must not find that of the person either."""
    folder = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("SKILLYARD_HOME", str(folder / "skillyard"))
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SKILLYARD_DATABASE_URL"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders; `mktemp` would take longer than many tests."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that no test sees or touches the skills of the person who runs it."""
    folder = next(_homes)
    folder.mkdir()
    for name, path in {
        "HOME": folder,
        "XDG_DATA_HOME": folder / ".local/share",
        "XDG_CONFIG_HOME": folder / ".config",
        "XDG_CACHE_HOME": folder / ".cache",
        "SKILLYARD_HOME": folder / "skillyard",
    }.items():
        monkeypatch.setenv(name, str(path))
    monkeypatch.delenv("CLAUDE_SKILLS_DIR", raising=False)
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    return folder


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Where the spans of this test go; a process has one provider for good, whichever test sets it."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(kept := InMemorySpanExporter()))
    yield kept
    kept.shutdown()


@pytest.fixture
def timing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The `Timing` of every catalog of this test: milliseconds between two looks, and as ever until something is given up.

    With the parameter `real` it is that of production. Components whose tests wait for other processes use it for all of them.
    """
    from skillyard.library import Catalog
    from skillyard.times import DEFAULT_TIMING, Timing

    if getattr(request, "param", "fast") == "real":
        return DEFAULT_TIMING
    fast = Timing(
        heartbeat_s=0.2,
        confirm_s=0.1,
        look_s=0.05,
        lasting_look_s=0.05,
        turn_look_s=0.02,
        file_look_s=0.01,
        notifications_s=0.05,
        poll_s=0.1,
        organisations_s=0.05,
        schedules_tick_s=0.2,  # who looks at the schedules of many organisations opens them: that stays as it is
        gather_s=0.02,
        reconnect_s=0.05,
        listen_again_s=0.05,
        first_retry_s=0.02,
        longest_retry_s=0.1,
    )
    monkeypatch.setattr(Catalog, "timing", fast)
    return fast


@pytest.fixture
def skillyard_command(timing: Any) -> tuple[str, ...]:
    """The command `skillyard` in a process of its own, with the `timing` of the test."""
    run = "import runpy; runpy.run_module('skillyard', run_name='__main__')"
    given = f"from skillyard.library import Catalog; from skillyard.times import Timing; Catalog.timing = {timing!r}"
    return (sys.executable, "-c", f"{given}; {run}")


@pytest.fixture
def skills_root(tmp_path: Path) -> Path:
    """An empty folder to put skills into."""
    root = tmp_path / "skills"
    root.mkdir()
    return root


@pytest.fixture
def make_skill() -> MakeSkill:
    """Give a function that writes `root/name/SKILL.md` and any other files."""

    def make(
        root: Path,
        name: str,
        *,
        description: str = "Does one thing well. Use when a test needs a skill.",
        body: str = "# Steps\n\n1. Do it.\n",
        front_matter: str | None = None,
        raw: bytes | None = None,
        files: Mapping[str, str | bytes] | None = None,
    ) -> Path:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        header = front_matter if front_matter is not None else f"name: {name}\ndescription: {description}"
        data = raw if raw is not None else f"---\n{header}\n---\n\n{body}".encode()
        (folder / "SKILL.md").write_bytes(data)
        for relative, content in (files or {}).items():
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return make


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A model server on loopback that follows a script (`tests/scripted_models.py`); no SDK goes anywhere else."""
    server = scripted_models.ScriptedModels()
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")):
            monkeypatch.delenv(name)
    for name, value in {**server.environment, "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.fixture(scope="session", autouse=True)
def _tables_once() -> Iterator[None]:
    """Make tables by all migrations once in each kind of database, then by the same statements, in a tenth of the time."""
    if importlib.util.find_spec("sqlalchemy") is None:  # the tests of an ordinary user
        yield
        return
    from sqlalchemy import Connection, event

    from skillyard.database import connection, dialects, maintenance, registry_tables

    seen: dict[str, list[tuple[Any, Any]]] = {}

    def upgrade(at: Connection) -> str | None:
        dialects.take_global_lock(at)
        if maintenance.revision_of(at) is not None:
            return maintenance.upgrade(at)
        if kept := seen.get(at.dialect.name):
            for statement, parameters in kept:
                at.exec_driver_sql(statement, parameters)
            if at.dialect.name == "postgresql":
                registry_tables.make_substring_index(at)  # whether an extension is there is different in each database
            return None
        executed: list[tuple[Any, Any]] = []

        def note(_c: object, _u: object, statement: str, parameters: Any, _x: object, _m: object) -> None:
            executed.append((statement, parameters))

        event.listen(at, "before_cursor_execute", note)
        try:
            before = maintenance.upgrade(at)
        finally:
            event.remove(at, "before_cursor_execute", note)
        other = ("PRAGMA", "SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK", "CREATE EXTENSION")
        made = [one for one in executed if not one[0].lstrip().upper().startswith(other)]
        seen[at.dialect.name] = [one for one in made if "gin_trgm_ops" not in one[0]]
        return before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "upgrade", upgrade)
        yield


@pytest.fixture(scope="session", autouse=True)
def _files_once(_tables_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy the first file of SQLite that has its tables (`tests/first_file.py`), here and in the `preloaded` processes."""
    if importlib.util.find_spec("sqlalchemy") is None:  # the tests of an ordinary user
        yield
        return
    from skillyard.database import connection

    first, upgrade = tmp_path_factory.mktemp("tables") / "first.db", connection.upgrade

    def wanted() -> bool:
        return connection.upgrade is upgrade  # `database` goes through the migrations

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection.Database, "open", first_file.copies(first, wanted))
        patch.setattr(preloaded, "first_file", lambda: first if wanted() else None)
        yield


class _Compiled:
    """Compiled statements that all engines of one kind of database share: their dialects are many, but write the same SQL."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Any] = {}

    def get(self, key: tuple[Any, ...]) -> Any:
        return self._kept.get((key[0].name, *key[1:]))

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        self._kept[key[0].name, *key[1:]] = compiled


@pytest.fixture(scope="session", autouse=True)
def _statements_once() -> Iterator[None]:
    """Compile each statement once: an engine does that for itself, and nearly every test has an engine of its own."""
    if importlib.util.find_spec("sqlalchemy") is None:  # the tests of an ordinary user
        yield
        return
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

    from skillyard.database import connection

    make, compiled = connection.make_engine, _Compiled()

    def sharing(url: URL) -> Engine:
        engine = make(url)
        engine.update_execution_options(compiled_cache=compiled)
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "make_engine", sharing)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_once() -> Iterator[None]:
    """Read the certificates of the machine once: each client of HTTP takes 18 ms for it, and `get` makes a client."""
    if importlib.util.find_spec("httpcore2") is None:  # the tests of an ordinary user
        yield
        return
    import httpcore2
    from httpx._transports import default as httpx_transports  # of the SDKs, and of tests that ask over a port

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        patch.setattr(httpx_transports, "create_ssl_context", functools.cache(httpx_transports.create_ssl_context))
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL server: the one of SKILLYARD_TEST_POSTGRESQL, else one that is started for the tests."""
    if given := os.environ.get("SKILLYARD_TEST_POSTGRESQL"):
        yield given
        return
    with postgresql_server.server() as url:
        yield url


@pytest.fixture(scope="session")
def _clocked() -> Iterator[Any]:
    with postgresql_server.clocked() as cluster:
        yield cluster


@pytest.fixture
def set_clock(_clocked: Any) -> Iterator[Callable[[int], None]]:
    """Give a function that lets the clock of a PostgreSQL server be so many seconds off; its database is `clocked_address`."""
    yield _clocked.set_clock
    _clocked.set_clock(0)


@pytest.fixture
def clocked_address(_clocked: Any) -> Iterator[str]:
    """The URL of an empty database on the server whose clock can be set."""
    with postgresql_server.database_of(_clocked.url) as url:
        yield url


@pytest.fixture(scope="session")
def _with_tables(postgresql: str) -> Iterator[Any]:
    """Databases of PostgreSQL that have their tables and nothing in them."""
    with _copies(postgresql, lambda database: None) as copies:
        yield copies


@pytest.fixture(scope="session")
def _with_queues(postgresql: str) -> Iterator[Any]:
    """The same with the tables of the queues, which are made when the first worker or caller comes."""
    from skillyard.engine.run_queue import RunQueue

    with _copies(postgresql, lambda database: RunQueue(database).prepare()) as copies:
        yield copies


@contextmanager
def _copies(server: str, prepare: Callable[[Any], None]) -> Iterator[Any]:
    from skillyard.database import Database

    with postgresql_server.database_of(server) as url:
        database = Database.open("", url)
        prepare(database)
        database.close()
        with closing(postgresql_server.Copies(server, url.partition("?")[0].rpartition("/")[2])) as copies:
            yield copies


@pytest.fixture
def address_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Give a function that makes a database, `sqlite` or `postgresql`, and returns its URL; `bare` is one without tables.

    With `queues` those of worker pools are made too.
    """
    with ExitStack() as stack:

        def make(kind: str, *, bare: bool = True, queues: bool = False) -> str:
            if kind == "sqlite":
                return f"sqlite:///{tmp_path}/records/skillyard.db"
            server: str = request.getfixturevalue("postgresql")
            url: str = stack.enter_context(
                postgresql_server.database_of(server)
                if bare
                else request.getfixturevalue("_with_queues" if queues else "_with_tables").one()
            )
            return url

        yield make


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket, which this test's environment can reach."""
    from urllib.request import Request, urlopen

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"skills-{os.urandom(6).hex()}"
    with urlopen(Request(f"{s3_server}/{name}", method="PUT"), timeout=10):
        return f"s3://{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_address(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> str:
    """The URL of a database without records, once of each kind."""
    return address_of(request.param, bare=False)


@pytest.fixture
def database(database_address: str, tmp_path: Path, timing: Any) -> Iterator[Any]:
    """An empty `Database` with its tables made, once of each kind."""
    from skillyard.database import Database

    opened = Database.open(str(tmp_path), database_address, timing=timing)
    yield opened
    opened.close()
