"""Package environments: what a script requires, installed once, locked by hash, kept in `$SKILLYARD_HOME/cache/environments/`.

Resolving and installing is the only step with a network, only where the operator allows it, and only to the operator's index,
through a proxy that knows no other hosts. Nothing that is downloaded runs: built wheels only. A folder is made whole under
another name and then moved into place, so that any number of processes may request the same one.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from skillyard.errors import DependenciesUnavailable, FileMissing, InvalidPolicy, NotExecutable
from skillyard.execution.script_block import ScriptBlock, read_requirements, read_script_block
from skillyard.network.hosts import MalformedHost, read_rules
from skillyard.paths import read_inside
from skillyard.sandbox import interpreter_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.network.proxy import Proxy


_USUAL: Final = "https://pypi.org/simple"
_USUAL_HOSTS: Final = ("https://files.pythonhosted.org",)
_VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")  # uv's own names for what the operator uses everywhere
_KEPT_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LANG",
    "LC_ALL",
)  # whom the operator trusts, and the language of messages
_MOST_BYTES: Final = 8 * 1024**3  # of all packages of one script
_PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = 'write package-index = "https://…" and package-hosts = ["…"] into the [sandbox] table of your own skillyard.toml'


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: the address of an index, and entries of an allow-list for it and for its files."""

    url: str
    hosts: tuple[str, ...]

    @classmethod
    def configured(cls, settings: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Self:
        """The index of a `[sandbox]` table (`package-index`, `package-hosts`), else of uv's variables, else the usual one.

        Files of an index of one's own are expected on its own host, unless `package-hosts` names others.

        Raises:
            InvalidPolicy: the address or a host cannot be used.
        """
        from urllib.parse import urlsplit  # only for operators who name an index, or where something is installed

        environ = os.environ if environ is None else environ
        named = next((environ[name] for name in _VARIABLES if environ.get(name)), _USUAL)
        url = settings.get("package-index", named)
        others = settings.get("package-hosts", _USUAL_HOSTS if url == _USUAL else ())
        if not isinstance(url, str) or not isinstance(others, list | tuple) or not all(isinstance(one, str) for one in others):
            raise InvalidPolicy("package-index must be an address, package-hosts a list of hosts", hint=_HINT)
        try:
            parts = urlsplit(url)
            if parts.scheme not in _PORTS or not parts.hostname:
                raise ValueError
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            hosts = (f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}", *others)
            read_rules(hosts)
        except (MalformedHost, ValueError):
            raise InvalidPolicy("the package index or one of its hosts is no address that can be used", hint=_HINT) from None
        return cls(url, hosts)


def uv_environment(index: PackageIndex, proxy: str, home: str, cache: str) -> dict[str, str]:
    """All variables that uv gets: nothing of the machine's but whom it trusts; `home` is empty, `cache` keeps downloads."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    proxies = {name: proxy for scheme in ("http", "https", "all") for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")}
    return kept | proxies | {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "UV_CACHE_DIR": cache,
        "UV_DEFAULT_INDEX": index.url,  # not on the command line: it may hold a password
        "UV_NO_CONFIG": "1",
        "UV_KEYRING_PROVIDER": "disabled",
        "UV_PYTHON_DOWNLOADS": "never",
    }  # fmt: skip


@contextmanager
def index_proxy(index: PackageIndex) -> Iterator[tuple[str, Proxy]]:
    """A proxy on loopback that leads to the index and nowhere else: its address, and the proxy; it ends with the block."""
    import socket  # only where something is installed

    from anyio.from_thread import start_blocking_portal

    from skillyard.network.proxy import Proxy, ProxyLimits

    limits = ProxyLimits(connections=64, idle_s=60.0, received_bytes=_MOST_BYTES)
    proxy = Proxy(read_rules(index.hosts), check_addresses=False, limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as listener, start_blocking_portal("asyncio") as portal:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        portal.call(proxy.open, listener)
        try:
            yield address, proxy
        finally:
            portal.call(proxy.close)


_SCRIPT_LIMIT: Final = 20 * 1024 * 1024
_PATIENCE: Final = 300  # seconds for one call of uv
_TAIL: Final = 1_000
_ALLOW: Final = (
    "allow it once with --install, or for all runs with `install-dependencies = true` in the [sandbox] table of skillyard.toml"
)
_NO_UV: Final = "pip install 'uv>=0.9', or install uv in another way"


def environments_folder() -> str:
    """Where environments and their locks are kept."""
    from skillyard.catalog import home_directory  # only for scripts that need packages

    return str(Path(home_directory(), "cache", "environments"))


def index_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Those of a `[sandbox]` table that name the package index.

    Raises:
        InvalidPolicy: they do not name one that can be used.
    """
    own = {name: settings[name] for name in ("package-hosts", "package-index") if name in settings}
    if own:
        PackageIndex.configured(own)
    return own


def environment_for(
    directory: str, entry: str, *, install: bool, settings: Mapping[str, object] | None = None, wanted: Sequence[str] = ()
) -> str:
    """The folder with the packages the script `entry` of the skill in `directory` requires, empty when it requires none.

    What is not there yet is resolved and installed when `install` says so, from the index that the user's `[sandbox]` table
    `settings` names. `wanted` are requirements of the caller beside the script's own. Blocks; may take as long as downloading
    does.

    Raises:
        DependenciesUnavailable: they are not there and may not, or cannot, be installed.
        NotExecutable: its block cannot be understood, or it is for another Python.
        InvalidPolicy: the index cannot be used.
    """
    if not entry.endswith(".py"):
        if wanted:
            listed = ", ".join(wanted)
            message = f"{entry} is no Python script, and cannot be given the packages {listed}"
            raise DependenciesUnavailable(message, hint="run it without them", dependencies=list(wanted))
        return ""
    try:
        source = read_inside(directory, entry, limit=_SCRIPT_LIMIT)
    except FileMissing:
        return ""  # the run itself says so
    block = read_script_block(source)
    if wanted:
        block = replace(block, dependencies=(*block.dependencies, *read_requirements(wanted)))
    if block == ScriptBlock():
        return ""
    program = interpreter_for(entry)
    interpreter = _Interpreter(os.path.realpath(program), _python_version(program))
    if not block.allows(interpreter.version):
        here = ".".join(map(str, interpreter.version[:2]))
        raise NotExecutable(
            f"the script is for Python {block.requires_python}, this one is {here}", hint="run Skillyard on such a Python"
        )
    return _folder(_InstallRequest(block, interpreter, install, settings or {})) if block.dependencies else ""


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """The Python that runs scripts in the sandbox."""

    program: str
    version: tuple[int, int, int]

    @property
    def identity(self) -> str:
        return f"{self.program} {self.version[:2]} {platform.machine()}"


@dataclass(frozen=True, slots=True)
class _InstallRequest:
    """What a script requires, for which Python, whether it may be installed, and the settings that name the index."""

    block: ScriptBlock
    interpreter: _Interpreter
    install: bool
    settings: Mapping[str, object]


@lru_cache(maxsize=4)
def _python_version(program: str) -> tuple[int, int, int]:
    """The version of this Python when it is the program, else what the program says."""
    if os.path.realpath(program) == os.path.realpath(sys.executable):
        return sys.version_info[:3]
    import subprocess  # another Python than this one

    code = "import sys; print(*sys.version_info[:3])"
    answer = subprocess.run([program, "-I", "-S", "-c", code], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    major, minor, micro = answer.stdout.split()
    return int(major), int(minor), int(micro)


def _folder(order: _InstallRequest) -> str:
    identity = order.interpreter.identity
    requirements = "\n".join([*sorted(order.block.dependencies), order.block.requires_python, identity])
    base = Path(environments_folder())
    lock = base / f"{_digest(requirements)}.lock"
    if not lock.exists():
        _require_permission(order)
        _write_lock(lock, order)
    folder = base / _digest(lock.read_text("utf-8") + identity)
    if not folder.is_dir():
        _require_permission(order)
        _install(folder, lock, order)
    return str(folder)


def _digest(text: str) -> str:
    import hashlib  # only for scripts that need packages

    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _require_permission(order: _InstallRequest) -> None:
    if not order.install:
        raise _unavailable(order.block, "the script needs packages that are not installed", _ALLOW)


def _unavailable(block: ScriptBlock, what: str, hint: str) -> DependenciesUnavailable:
    requirements = list(block.dependencies)
    return DependenciesUnavailable(f"{what}: {', '.join(requirements)}", hint=hint, dependencies=requirements)


def _write_lock(lock: Path, order: _InstallRequest) -> None:
    """Resolve to exact versions with the hashes of their files."""
    import tempfile

    lock.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lock.parent, prefix="new-") as work:
        Path(work, "wanted.txt").write_text("\n".join(order.block.dependencies) + "\n", "utf-8")
        options = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        _uv(order, ["compile", *options, "--output-file", "lock.txt", "wanted.txt"], work)
        Path(work, "lock.txt").replace(lock)


def _install(folder: Path, lock: Path, order: _InstallRequest) -> None:
    """Fill the folder with exactly what the lock names."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as work:
        shutil.copyfile(lock, Path(work, "lock.txt"))
        options = ["--target", "packages", "--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode"]
        _uv(order, ["install", *options, "--requirements", "lock.txt"], work)
        made = Path(work, "packages")
        made.mkdir(exist_ok=True)  # every requirement may have a marker that says: not here
        made.chmod(0o755)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise


def _uv(order: _InstallRequest, words: Sequence[str], work: str) -> None:
    """One call of `uv pip` in a folder of its own, with no settings but ours, and a network that is the index."""
    import subprocess  # only where something is installed
    import tempfile

    program = find_uv()
    if program is None:
        raise _unavailable(order.block, "installing packages needs uv", _NO_UV)
    index = PackageIndex.configured(order.settings)
    command = [
        program,
        "--no-config",
        "pip",
        *words,
        "--quiet",
        "--python",
        order.interpreter.program,
        "--only-binary",
        ":all:",
    ]
    cache = str(Path(environments_folder()).parent / "uv")
    try:
        with index_proxy(index) as (proxy_url, proxy), tempfile.TemporaryDirectory(prefix="skillyard-uv-") as home:
            done = subprocess.run(  # noqa: S603
                command, cwd=work, env=uv_environment(index, proxy_url, home, cache), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_PATIENCE, check=False,
            )  # fmt: skip
            refused = sorted({contact.host for contact in proxy.contacts if contact.verdict == "denied"})
    except subprocess.TimeoutExpired:
        raise _unavailable(order.block, f"uv took longer than {_PATIENCE} seconds", "try again, or check the network") from None
    if done.returncode != 0:
        why = " ".join(done.stderr.decode("utf-8", "replace").split())[-_TAIL:]
        elsewhere = f" (the index leads to {', '.join(refused)}: name it in `package-hosts` if you trust it)" if refused else ""
        raise _unavailable(order.block, f"the packages cannot be installed{elsewhere}", why or "uv gives no reason")


def find_uv() -> str | None:
    """The program `uv`: of the Python package beside this Python, else on a trusted `PATH`; `None` when there is none."""
    from skillyard.sandbox import on_trusted_path  # only where something is installed

    own = Path(sys.prefix, "bin", "uv")
    return str(own) if own.is_file() else next(on_trusted_path("uv"), None)
