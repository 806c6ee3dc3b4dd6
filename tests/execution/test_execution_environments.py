"""Packages a Python script asks for: refused without leave, installed once, locked, and seen read-only."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import growth_of

from skillyard.catalog import Configuration
from skillyard.environments import locked_packages
from skillyard.environments.declared import SOURCE_LIMIT, ScriptBlock, read_script_block
from skillyard.environments.installer import PackageIndex
from skillyard.environments.locked_packages import uv_environment
from skillyard.errors import DependenciesUnavailable, InvalidPolicy, NotExecutable, PermissionDenied, SkillyardError
from skillyard.execution import Executor, RunRequest

BLOCK = '# /// script\n# requires-python = ">=3.9"\n# dependencies = [\n#   "iniconfig>=2",\n# ]\n# ///\n'
SCRIPT = f"""#!/usr/bin/env python3
{BLOCK}
import os
import iniconfig

def execute(parameters):
    folder = os.path.dirname(os.path.dirname(iniconfig.__file__))
    try:
        open(os.path.join(folder, "x"), "w")
    except OSError as error:
        return {{"version": iniconfig.__name__, "write": type(error).__name__}}
"""


@pytest.fixture
def data_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private home for installed things."""
    folder = Path(tempfile.mkdtemp(prefix="home-"))
    monkeypatch.setenv("SKILLYARD_HOME", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.row("000-40")
async def test_without_leave_the_packages_and_the_way_out_are_named(write_skill, data_home: Path) -> None:
    with pytest.raises(DependenciesUnavailable) as caught:
        await Executor().run(RunRequest(write_skill(SCRIPT), {}))
    assert caught.value.details["dependencies"] == ["iniconfig>=2"]
    assert "iniconfig>=2" in caught.value.message
    assert "--install" in (caught.value.hint or "")
    assert list(data_home.iterdir()) == []


async def test_what_was_not_approved_is_not_even_asked_for_its_packages(write_skill, data_home: Path) -> None:
    with pytest.raises(PermissionDenied):
        await Executor(install=True).run(RunRequest(write_skill(SCRIPT), {}, digest="sha256:of something else"))
    assert list(data_home.iterdir()) == []


async def test_packages_are_installed_once_and_then_used_without_leave(
    write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = write_skill(SCRIPT)
    runs = await asyncio.gather(
        *(Executor(install=True, backend=name).run(RunRequest(skill, {})) for name in ("bwrap", "landlock"))
    )
    for run in runs:
        assert run.error is None, run.stderr
        assert isinstance(run.output, dict)
        assert run.output["version"] == "iniconfig"
        assert run.output["write"] in ("OSError", "PermissionError")
    kept = sorted((data_home / "cache/environments").iterdir())
    assert [path.suffix for path in kept if path.is_file()] == [".lock"]
    assert [path for path in kept if path.is_dir() and (path / "iniconfig").is_dir()] == [
        path for path in kept if path.is_dir()
    ]
    lock = next(path for path in kept if path.is_file()).read_text("utf-8")
    assert "iniconfig==" in lock
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    monkeypatch.setattr(locked_packages, "find_uv", lambda: None)
    assert (await Executor().run(RunRequest(skill, {}))).error is None


async def test_a_package_that_does_not_exist_is_an_error_with_its_reason(write_skill, data_home: Path) -> None:
    source = SCRIPT.replace("iniconfig>=2", "iniconfig>=2,<2")
    with pytest.raises(DependenciesUnavailable, match="cannot be installed") as caught:
        await Executor(install=True).run(RunRequest(write_skill(source), {}))
    assert "iniconfig" in (caught.value.hint or "")
    assert list((data_home / "cache/environments").iterdir()) == []


async def test_without_uv_the_error_says_how_to_get_it(write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_packages, "find_uv", lambda: None)
    with pytest.raises(DependenciesUnavailable) as caught:
        await Executor(install=True).run(RunRequest(write_skill(SCRIPT), {}))
    assert "pip install 'uv>=0.9'" in (caught.value.hint or "")


def test_the_operator_allows_it_in_the_settings(write_skill, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_packages, "find_uv", lambda: None)
    allowed = Executor.from_configuration(Configuration(sandbox={"install-dependencies": True}))
    with pytest.raises(DependenciesUnavailable, match="needs uv"):
        asyncio.run(allowed.run(RunRequest(write_skill(SCRIPT), {})))
    with pytest.raises(SkillyardError, match="true or false"):
        Executor.from_configuration(Configuration(sandbox={"install-dependencies": "yes"}))
    with pytest.raises(InvalidPolicy, match="a project cannot decide install-dependencies"):
        Executor.from_configuration(Configuration(project_sandbox={"install-dependencies": True}))


async def test_a_script_without_dependencies_needs_nothing(write_skill, data_home: Path) -> None:
    source = "# /// script\n# dependencies = []\n# ///\ndef execute(p):\n    return 1"
    assert (await Executor().run(RunRequest(write_skill(source), {}))).output == 1


async def test_a_script_for_another_python_is_refused(write_skill, data_home: Path) -> None:
    with pytest.raises(NotExecutable, match=r"is for Python <3\.0"):
        await Executor(install=True).run(RunRequest(write_skill(SCRIPT.replace(">=3.9", "<3.0")), {}))


def read(text: str) -> ScriptBlock:
    return read_script_block(text.encode("utf-8", "surrogatepass"))


def test_a_block_is_read_as_written() -> None:
    assert read(f"import os\n{BLOCK}") == ScriptBlock(("iniconfig>=2",), ">=3.9")
    assert read("# /// other\n# x = 1\n# ///\n") == ScriptBlock()
    assert read(BLOCK.replace("\n", "\r\n")) == ScriptBlock(("iniconfig>=2",), ">=3.9")


def test_a_block_ends_with_the_last_line_that_can_end_it() -> None:
    assert read('# /// script\n# x = """\n# ///\n# """\n# dependencies = [\'rich\']\n# ///\n# more\n').dependencies == ("rich",)
    assert read("# /// script\n# ///\n") == ScriptBlock()
    assert read("# /// script\n# dependencies = ['rich']\n\n# ///\n") == ScriptBlock()
    assert read("# /// one\n# x\n\n# /// script\n# dependencies = ['rich']\n# ///").dependencies == ("rich",)


@pytest.mark.parametrize(
    "wanted",
    [
        "name @ https://example.org/x.whl", "git+https://example.org/x", "./local", "/etc/passwd", "-r other.txt",
        "--index-url=x", "a\\n--index-url x", "name @ file:///etc", "", "a b", "a===${HOME}", "a\\\\",
        "a; sys_platform == '--index-url=x'", "a; sys_platform == '\\t# x'", "a" * 1_001, "a" + "(" * 400, "name@file:x",
    ],
)  # fmt: skip
def test_only_packages_by_name_are_installed(wanted: str) -> None:
    with pytest.raises(NotExecutable):
        read(f'# /// script\n# dependencies = ["{wanted}"]\n# ///\n')


_BREAKS = ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x00", "\x7f"]
_OPTIONS = ["--extra-index-url http://127.0.0.1:1/simple", "-r /etc/passwd", "--find-links /etc", "-e .", "name @ file:///etc"]


@pytest.mark.abuse("F25")
@pytest.mark.parametrize("option", _OPTIONS)
@pytest.mark.parametrize("mark", _BREAKS)
def test_no_line_break_smuggles_an_option_to_uv(mark: str, option: str) -> None:
    escaped = "".join(f"\\u{ord(one):04x}" for one in mark)
    refused = 0
    for wanted in (
        f"iniconfig{escaped}{option}",
        f"{option}{escaped}",
        f"iniconfig>=2{escaped}{option}",
        f"iniconfig;{escaped}{option}",
    ):
        with pytest.raises(NotExecutable):
            read(f'# /// script\n# dependencies = ["{wanted}"]\n# ///\n')
        refused += 1
    assert refused == 4


@pytest.mark.parametrize(
    ("wanted", "written"),
    [
        ("rich", "rich"), ("rich>=13,<15", "rich<15,>=13"), ("rich[jupyter] ~= 13.0", "rich[jupyter]~=13.0"),
        ("a.b_c-d==1.0", "a.b_c-d==1.0"),
        ('rich; python_version < "3.12"', 'rich; python_version < "3.12"'),
    ],
)  # fmt: skip
def test_requirements_by_name_are_kept_in_their_canonical_form(wanted: str, written: str) -> None:
    assert read(f"# /// script\n# dependencies = ['{wanted}']\n# ///\n").dependencies == (written,)


@pytest.mark.parametrize(
    "text",
    [
        "dependencies = [", "dependencies = 'rich'", "requires-python = 3.9", "dependencies = [1]", "x = " + "9" * 5_000,
        f"requires-python = '<3.{'9' * 5_000}'",
    ],
)  # fmt: skip
def test_a_block_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(NotExecutable):
        read(f"# /// script\n# {text}\n# ///\n")
    with pytest.raises(NotExecutable, match="several"):
        read(BLOCK + "\n" + BLOCK)


def test_a_block_has_a_place_and_a_size() -> None:
    padding = "#" + "x" * SOURCE_LIMIT + "\n"
    with pytest.raises(NotExecutable, match="behind the first 2 MiB"):
        read(padding + BLOCK)
    assert read(BLOCK + padding).dependencies == ("iniconfig>=2",)
    with pytest.raises(NotExecutable, match="over 32 KiB"):
        read("# /// script\n" + "# # a comment\n" * 3_000 + "# ///\n")
    with pytest.raises(NotExecutable, match="names 201 packages"):
        read(f"# /// script\n# dependencies = {['a'] * 201}\n# ///\n")


@pytest.mark.abuse("G22")
@pytest.mark.parametrize(
    "text",
    [
        lambda size: "# /// script\n" * size,
        lambda size: "# /// script\n" + "#\n" * size,
        lambda size: "# /// script\n# x\n" * size + "# ///",
        lambda size: f'# /// script\n# dependencies = ["A{" " * size}!"]\n# ///\n',
        lambda size: f"# /// script\n# x = {'[' * size}\n# ///\n",
    ],
)
def test_a_block_is_looked_for_in_time_that_grows_with_the_script(text: Callable[[int], str]) -> None:
    assert growth_of(read, text, 1_500) < 9


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("", True), (">=3.9", True), (">=3.9,<3.12", True), ("<3.11", False), ("==3.11.*", True), ("==3.*", True),
        ("!=3.11.4", False), ("~=3.9", True), ("~=3.9.1", False), (">3.11", True), (">3.11.4", False),
        ("<=3.11", False), ("<=3.11.4", True), (">=4", False),
    ],
)  # fmt: skip
def test_requires_python_is_judged_as_pep_440_says(wanted: str, fits: bool) -> None:
    assert ScriptBlock(requires_python=wanted).allows((3, 11, 4)) is fits
    with pytest.raises(NotExecutable):
        ScriptBlock(requires_python="new").allows((3, 11, 4))


@given(st.text())
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for source in (text, f"# /// script\n# {text}\n# ///\n"):
        try:
            read(source).allows((3, 11, 4))
        except NotExecutable:
            continue


class _Asked(BaseHTTPRequestHandler):
    """Writes down each path that is asked for; `pages` are the answers."""

    pages: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        found = self.pages.get(self.path)
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")

    do_HEAD = do_GET  # noqa: N815 - the name that the library calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(pages: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Pages", (_Asked,), {"pages": pages}))
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wheel() -> bytes:
    """A package with one module, as a wheel."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("iniconfig/__init__.py", "")
        archive.writestr("iniconfig-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: iniconfig\nVersion: 2.0\n")
        archive.writestr("iniconfig-2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("iniconfig-2.0.dist-info/RECORD", "")
    return made.getvalue()


_WHEEL = "iniconfig-2.0-py3-none-any.whl"


@pytest.mark.abuse("F26")
async def test_installing_asks_the_index_and_nothing_else(
    write_skill, data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = wheel()
    digest = hashlib.sha256(data).hexdigest()
    with listening({f"/{_WHEEL}": data}) as (other, asked_other):
        link = f'<a href="{{}}/{_WHEEL}#sha256={digest}">{_WHEEL}</a>'
        pages = {"/simple/iniconfig/": link.format(other).encode()}
        with listening(pages) as (index, asked):
            # What the machine and the project say to uv does not count.
            (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{other}/simple"\n')
            for name, value in {
                "UV_EXTRA_INDEX_URL": f"{other}/simple", "UV_FIND_LINKS": f"{other}/",
                "UV_CONFIG_FILE": str(tmp_path / "uv.toml"),
                "UV_INDEX": f"{other}/simple", "NO_PROXY": "*", "no_proxy": "*", "UV_CONSTRAINT": "/etc/passwd",
            }.items():  # fmt: skip
                monkeypatch.setenv(name, value)
            settings = {"install-dependencies": True, "package-index": f"{index}/simple"}
            executor = Executor.from_configuration(Configuration(sandbox=settings))
            with pytest.raises(
                DependenciesUnavailable,
                match=r"cannot be installed \(the index leads to 127\.0\.0\.1: name it in `package-hosts`",
            ):
                await executor.run(RunRequest(write_skill(SCRIPT), {}))
            assert asked == ["/simple/iniconfig/"]
            assert asked_other == []
            allowed = Executor.from_configuration(Configuration(sandbox=settings | {"package-hosts": [other]}))
            run = await allowed.run(RunRequest(write_skill(SCRIPT), {}))
            assert run.error is None, run.stderr
            assert set(asked_other) == {f"/{_WHEEL}"}


def test_the_index_is_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = PackageIndex.configured({}, {})
    assert usual.url == "https://pypi.org/simple"
    assert usual.hosts == ("https://pypi.org:443", "https://files.pythonhosted.org")
    own = PackageIndex.configured({}, {"UV_DEFAULT_INDEX": "https://me:secret@wheels.corp:8443/simple"})
    assert own.hosts == ("https://wheels.corp:8443",)
    assert PackageIndex.configured({"package-index": "http://[::1]:80/x"}, {}).hosts == ("http://[::1]:80",)
    for wrong in (
        {"package-index": "file:///etc"},
        {"package-index": 3},
        {"package-hosts": "x"},
        {"package-hosts": ["*"]},
        {"package-index": "x"},
    ):
        with pytest.raises(InvalidPolicy):
            Executor.from_configuration(Configuration(sandbox=wrong))
    for name in ("package-index", "package-hosts"):
        with pytest.raises(InvalidPolicy, match=f"a project cannot decide {name}"):
            Executor.from_configuration(Configuration(project_sandbox={name: "https://evil.test"}))
    monkeypatch.setenv("UV_INDEX_URL", "https://x.test")
    monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
    given = uv_environment(own, "http://127.0.0.1:1", "/home", "/cache")
    assert {name for name in given if name.startswith("UV_")} == {
        "UV_CACHE_DIR", "UV_DEFAULT_INDEX", "UV_KEYRING_PROVIDER", "UV_NO_CONFIG", "UV_PYTHON_DOWNLOADS",
    }  # fmt: skip
    assert given["SSL_CERT_FILE"] == "/ca.pem"
    assert given["HOME"] == "/home"
    assert not {"no_proxy", "NO_PROXY"} & given.keys()
