"""Installing packages of either kind: from the index of the operator, locked, installed once, kept, removed when unused.

An installer (one call of uv or npm) works in a folder of its own, through a proxy that knows no hosts but those of its index,
with a deadline, and fails with a reason. A folder of packages is made whole under another name and then moved into place, so
that any number of processes may ask for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from skillyard.environments.grants import package_key
from skillyard.errors import DependenciesUnavailable, InvalidPolicy
from skillyard.files import delete_tree, locked_scratch
from skillyard.network.hosts import MalformedHost, read_rules
from skillyard.text import single_line
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_MOST_BYTES: Final = 8 * 1024**3  # of all packages of one environment
_PORTS: Final = {"http": 80, "https": 443}
KEPT_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "LANG", "LC_ALL")
"""Whom the operator trusts, and the language of messages: all that an installer gets of this process's variables."""
_TRUST_FILES: Final = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True, slots=True)
class _IndexKind:
    """One kind of index: its settings, the variables that name it everywhere, the usual address and where its files are."""

    setting: str
    hosts_setting: str
    variables: tuple[str, ...]
    usual: str
    usual_hosts: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """How to write the settings."""
        return (
            f'write {self.setting} = "https://…" and {self.hosts_setting} = ["…"] into the [sandbox] table of your own '
            "skillyard.toml"
        )


PYTHON_INDEX: Final = _IndexKind(
    "package-index",
    "package-hosts",
    ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "https://pypi.org/simple",
    ("https://files.pythonhosted.org",),
)
NPM_REGISTRY: Final = _IndexKind(
    "npm-registry", "npm-hosts", ("NPM_CONFIG_REGISTRY", "npm_config_registry"), "https://registry.npmjs.org"
)
INDEX_SETTINGS: Final = tuple(name for kind in (PYTHON_INDEX, NPM_REGISTRY) for name in (kind.setting, kind.hosts_setting))
"""The keys of the `[sandbox]` table that name where packages come from."""


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: the address of an index, and entries of an allow-list for it and for its files."""

    url: str
    hosts: tuple[str, ...]

    @classmethod
    def configured(
        cls, settings: Mapping[str, object], environ: Mapping[str, str] | None = None, *, kind: _IndexKind = PYTHON_INDEX
    ) -> Self:
        """The index of a `[sandbox]` table (`package-index`, `package-hosts`), else of uv's variables, else the usual one.

        For npm these are `npm-registry` and `npm-hosts`, and npm's variable. Files of an index of one's own are expected on its
        own host, unless the hosts name others.

        Raises:
            InvalidPolicy: the address or a host cannot be used.
        """
        from urllib.parse import urlsplit  # only for operators who name an index, or where something is installed

        environ = os.environ if environ is None else environ
        named = next((environ[name] for name in kind.variables if environ.get(name)), kind.usual)
        url = settings.get(kind.setting, named)
        others = settings.get(kind.hosts_setting, kind.usual_hosts if url == kind.usual else ())
        if not isinstance(url, str) or not isinstance(others, list | tuple) or not all(isinstance(one, str) for one in others):
            raise InvalidPolicy(f"{kind.setting} must be an address, {kind.hosts_setting} a list of hosts", hint=kind.hint)
        try:
            parts = urlsplit(url)
            if parts.scheme not in _PORTS or not parts.hostname:
                raise ValueError
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            hosts = (f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}", *others)
            read_rules(hosts)
        except (MalformedHost, ValueError):
            raise InvalidPolicy(
                "the package index or one of its hosts is not an address that can be used", hint=kind.hint
            ) from None
        return cls(url, hosts)


def index_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Those of a `[sandbox]` table that name where packages come from.

    Raises:
        InvalidPolicy: they do not name one that can be used.
    """
    own = {name: settings[name] for name in INDEX_SETTINGS if name in settings}
    for kind in (PYTHON_INDEX, NPM_REGISTRY):
        if kind.setting in own or kind.hosts_setting in own:
            PackageIndex.configured(own, kind=kind)
    return own


def registry_variables(settings: Mapping[str, object]) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """For commands that install packages themselves: the hosts of both registries, variables, and files that those name.

    An address with a password is not among the variables. The files are the certificates that this process trusts.

    Raises:
        InvalidPolicy: a registry cannot be used.
    """
    from urllib.parse import urlsplit  # only where registries are granted

    python = PackageIndex.configured(settings)
    npm = PackageIndex.configured(settings, kind=NPM_REGISTRY)
    named = (
        *(("PIP_INDEX_URL", python), ("UV_DEFAULT_INDEX", python)),
        *((name, npm) for name in ("npm_config_registry", "pnpm_config_registry", "YARN_NPM_REGISTRY_SERVER")),
    )
    variables = {name: index.url for name, index in named if "@" not in urlsplit(index.url).netloc}
    files = {name: os.environ[name] for name in _TRUST_FILES if Path(os.environ.get(name) or "/").is_file()}
    return (*python.hosts, *npm.hosts), variables | files, tuple(dict.fromkeys(files.values()))


def installer_environment(proxy: str, home: str) -> dict[str, str]:
    """The variables that every installer gets: nothing of the machine's but whom it trusts; `home` is empty."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    proxies = {name: proxy for scheme in ("http", "https", "all") for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")}
    return kept | proxies | {"PATH": os.defpath, "HOME": home, "TMPDIR": home}


@contextmanager
def index_proxy(index: PackageIndex) -> Iterator[tuple[str, Proxy]]:
    """A proxy on loopback that leads to the index and nowhere else: its address, and the proxy; it ends with the block."""
    import socket  # only where something is installed

    from anyio.from_thread import start_blocking_portal

    from skillyard.network.proxy import Proxy, ProxyLimits

    limits = ProxyLimits(connections=64, idle_s=60.0, received_bytes=_MOST_BYTES)
    rules = read_rules(index.hosts)
    proxy = Proxy(rules, trusted=rules, limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as listener, start_blocking_portal("asyncio") as portal:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        portal.call(proxy.open, listener)
        try:
            yield address, proxy
        finally:
            portal.call(proxy.close)


PATIENCE_S: Final = 300
"""How long one call of an installer may take."""
_MOST_REASON: Final = 1_000
_SCRATCH: Final = "new-"
ALLOW: Final = (
    "allow it once with --install, for this skill with `skillyard environment allow`, or for all runs with "
    "`install-dependencies = true` in the [sandbox] table of skillyard.toml"
)


def environments_folder() -> Path:
    """Where environments and their locks are kept."""
    from skillyard.catalog import home_directory

    return Path(home_directory(), "cache", "environments")


def text_digest(text: str) -> str:
    """The name of what is made from this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def unavailable(packages: Sequence[str], what: str, hint: str) -> DependenciesUnavailable:
    """The error about packages that are not there."""
    return DependenciesUnavailable(f"{what}: {', '.join(packages)}", hint=hint, dependencies=list(packages))


@dataclass(frozen=True, slots=True)
class InstallCall:
    """One command of an installer in the folder `work`; `environment` gives its variables for a proxy and an empty home.

    `packages` are what errors name, `reasons` pairs of a pattern of the installer's output and what it means.
    """

    tool: str
    command: tuple[str, ...]
    work: str
    index: PackageIndex
    packages: tuple[str, ...]
    environment: Callable[[str, str], Mapping[str, str]]
    reasons: tuple[tuple[re.Pattern[str], str], ...]
    hosts_setting: str

    def run(self) -> None:
        """Run it to its end; nothing of it is left when this returns.

        Raises:
            DependenciesUnavailable: it fails, or takes too long; the message says which of the known reasons it was.
        """
        import tempfile

        with index_proxy(self.index) as (proxy_url, proxy), tempfile.TemporaryDirectory(prefix="skillyard-install-") as home:
            code, output = self._output(self.environment(proxy_url, home))
            refused = sorted({contact.host for contact in proxy.contacts if contact.verdict == "denied"})
        if code == 0:
            return
        why = re.sub(r"(?i)^(?:npm )?error:? ", "", single_line(output))[:_MOST_REASON]
        meaning = next((meaning for pattern, meaning in self.reasons if pattern.search(output)), "")
        if refused:
            meaning = f"the index leads to {', '.join(refused)}: name it in `{self.hosts_setting}` if you trust it"
        what = f"the packages cannot be installed ({meaning})" if meaning else "the packages cannot be installed"
        kind = "npm" if self.tool == "npm" else "packages"
        named = [package for package in self.packages if package_key(kind, package) in output.lower()] if meaning else []
        if "no such package" in meaning:
            raise unavailable(named or self.packages, what, "check the spelling and the version")
        raise unavailable(named or self.packages, what, f"{self.tool} says: {why}" if why else f"{self.tool} gives no reason")

    def _output(self, environment: Mapping[str, str]) -> tuple[int, str]:
        import subprocess

        process = subprocess.Popen(  # noqa: S603
            self.command, cwd=self.work, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            data, _ = process.communicate(timeout=PATIENCE_S)
        except BaseException as error:  # also when the caller is interrupted: no installer works on alone
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                hint = "try again, or check the network"
                raise unavailable(self.packages, f"{self.tool} took longer than {PATIENCE_S} seconds", hint) from None
            raise
        return process.returncode, shorten_output(data)


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """The folder of one set of packages: the file of its `lock`, and how both are made.

    `identity` is what the packages depend on beside their lock, `within` the part of the folder that a sandbox is shown.
    """

    lock: Path
    identity: str
    write_lock: Callable[[], None]
    install: Callable[[Path, str], None]
    within: str = ""

    def find(self) -> Path | None:
        """The folder when it is complete; nothing is installed for the question."""
        try:
            folder = self._of(self.lock.read_text("utf-8"))
        except OSError:
            return None
        return folder / self.within if folder.is_dir() else None

    def provide(self, missing: DependenciesUnavailable | None) -> Path:
        """The folder; `missing` is raised where it is not there, unless it is None: then it is resolved and installed first.

        Raises:
            DependenciesUnavailable: the packages are not there and may not, or cannot, be installed.
            InvalidPolicy: the index cannot be used.
        """
        if (found := self.find()) is not None:
            note_use(self.lock, found.parent if self.within else found)
            return found
        if missing is not None:
            raise missing
        if not self.lock.exists():
            self.write_lock()
        text = self.lock.read_text("utf-8")
        folder = self._of(text)
        if not folder.is_dir():
            self.install(folder, text)
        return folder / self.within

    def _of(self, lock: str) -> Path:
        return environments_folder() / text_digest(lock + self.identity)


def shorten_output(data: bytes) -> str:
    """What an installer wrote, at most the first and last 32 KiB of it."""
    most = 32 * 1024
    kept = data if len(data) <= 2 * most else data[:most] + b"\n" + data[-most:]
    return kept.decode("utf-8", "replace")


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """A folder to make something in that is then moved beside; what a killed process left there is removed first."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locked_scratch(folder, _SCRATCH) as work:
        yield Path(work)


def move_into_place(made: Path, target: Path) -> None:
    """Give a finished folder its name; where another process was faster, its folder stays."""
    made.chmod(0o755)
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


DAY_S: Final = 86_400
UNUSED_DAYS: Final = 30
"""After so many days without use an environment is removed by a prune, unless another number is given."""
_LOCKS: Final = (".lock", ".npm-lock")
_DOWNLOADS: Final = ("uv", "npm")


@dataclass(frozen=True, slots=True)
class CacheReport(WireForm):
    """What a prune removed: environments, their locks and downloads of the installers, in bytes all together."""

    environments: int
    locks: int
    size: int


def prune_environments(*, unused_days: int = UNUSED_DAYS, now: float | None = None) -> CacheReport:
    """Remove environments and locks that were not used for `unused_days`, and what the installers have downloaded.

    Runs that are going on keep what they see: it is renamed before it is removed, and open files stay. Whatever is removed is
    resolved and installed again when somebody is granted it.
    """
    base, before = environments_folder(), (time.time() if now is None else now) - unused_days * DAY_S
    folders, locks, size = 0, 0, 0
    for path in _entries(base):
        try:
            state = path.lstat()
        except OSError:
            continue
        if state.st_mtime > before:
            continue
        if path.is_dir():
            folders, size = folders + 1, size + _size(path)
            _remove(path)
        elif path.suffix in _LOCKS:
            locks, size = locks + 1, size + state.st_size
            path.unlink(missing_ok=True)
    for name in _DOWNLOADS:
        downloads = base.parent / name
        size += _size(downloads)
        delete_tree(downloads)
    return CacheReport(folders, locks, size)


def note_use(*paths: Path) -> None:
    """Note that these are used now, once in an hour: a prune removes what has not been used for long."""
    now = time.time()
    for path in paths:
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > 3_600:
                os.utime(path)


def _entries(base: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(base.iterdir())


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total


def _remove(folder: Path) -> None:
    aside = folder.with_name(f"new-{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        folder.rename(aside)
        delete_tree(aside)
