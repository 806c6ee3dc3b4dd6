"""Finds out whether a backend keeps its promises here, by attacking it, and remembers the answer.

A backend that holds is remembered on disk for this kernel, boot, user, capabilities of root, program and version; one that does
not is tried again by the next process, because someone may have fixed the machine meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import socket
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from pathlib import Path
from types import MappingProxyType
from typing import Final

from skillyard._version import __version__
from skillyard.errors import SkillyardError
from skillyard.files import read_private_cache, user_cache_file, write_private_cache
from skillyard.sandbox.job import Job, Probe, SandboxBackend, SandboxResult
from skillyard.sandbox.policy import Policy, base_environment

# Variables that shells and Python add to their own environment.
_HARMLESS: Final = {*base_environment(scratch="/"), "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
_FILE: Final = "sandbox-probes"
_KIND: Final = b"SYP1"
_probes: dict[str, Probe] = {}


def probe_by_attack(
    backend: SandboxBackend, *, binary: str | None, remedies: tuple[str, ...], facts: Mapping[str, str], called: str = ""
) -> Probe:
    """Run the canary in the backend; any attack that succeeds marks it as broken. Blocks for some tens of milliseconds.

    `called` is the name under which it is remembered, where that is not the backend's.
    """
    key = _key(called or backend.name, binary)
    if key in _probes:
        return _probes[key]
    if key in _remembered():
        return _probes.setdefault(key, Probe(backend.name, ok=True, facts=dict(facts)))
    lacking = _lacking_capabilities()
    reason = f"{_ROOT_WITHOUT}{', '.join(lacking)}" if lacking else _attack(backend)
    helps = (*(remedy for words, remedy in _CAUSES if words in reason), *remedies) if reason else ()
    probe = Probe(backend.name, ok=not reason, reason=reason, remedies=helps, facts=dict(facts))
    _probes[key] = probe
    if probe.ok:
        _remember(key)
    return probe


_ROOT_WITHOUT: Final = "root cannot give a run a user of its own, because this process lacks "
_NEEDED: Final = MappingProxyType({"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7})
"""What root needs to be another user for a run, to hand it files and to end it, with the numbers that the kernel gives them."""
_CAUSES: Final = (
    (
        _ROOT_WITHOUT,
        "start as an ordinary user, or leave root these capabilities: `docker run --cap-add` names each after `--cap-drop`",
    ),
    ("ignores SIGCHLD", "call `signal.signal(signal.SIGCHLD, signal.SIG_DFL)` before the first run"),
    ("Too many open files", "raise the limit of open files: `ulimit -n 1024`"),
    (
        "Resource temporarily unavailable",
        "raise the limit of processes, for example `ulimit -u 4096`, or the `--pids-limit` of the container",
    ),
)
"""What helps where the machine itself is as it should be, by words of the reason."""


def _capabilities() -> int | None:
    """The set of capabilities of this process, a bit for each; None where there is none to be read."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16)
    except (OSError, ValueError, IndexError):
        return None


def _lacking_capabilities() -> list[str]:
    """The capabilities that this process needs as root and does not have."""
    held = _capabilities() if os.geteuid() == 0 else None
    return [] if held is None else [name for name, number in _NEEDED.items() if not held >> number & 1]


def is_remembered(called: str, binary: str) -> bool:
    """Whether it has held before, for this kernel, boot, user, program and version."""
    key = _key(called, binary)
    return (key in _probes and _probes[key].ok) or key in _remembered()


def _attack(backend: SandboxBackend) -> str:
    """Why the backend cannot be trusted, empty when it held."""
    try:
        workspace = tempfile.TemporaryDirectory(prefix=f"skillyard-probe-{os.getpid()}-")
        with workspace as folder, socket.create_server(("127.0.0.1", 0)) as server:
            Path(folder).chmod(0o755)
            secret = Path(folder, "canary.txt")
            secret.write_text("outside", encoding="ascii")
            secret.chmod(0o666)  # only the sandbox stands between the run and this file
            tree = Path(folder, "skill")
            tree.mkdir()
            source = Path(__file__).with_name("canary.py").read_bytes()
            (tree / "canary.py").write_bytes(source)
            targets = {"file": str(secret), "port": server.getsockname()[1]}
            job = Job(str(tree), "canary.py", json.dumps(targets).encode(), Policy(timeout_ms=20_000, memory_mb=128))
            result = _run_to_end(backend, job)
            if secret.read_text(encoding="ascii") != "outside":
                return "a file outside the sandbox was changed"
            return _weakness(result)
    except (OSError, SkillyardError) as error:
        return f"the probe could not run: {error}"


def _weakness(result: SandboxResult) -> str:
    if result.status != "ok" or not isinstance(result.value, dict):
        return f"a sandbox could not be started: {result.stderr.decode('utf-8', 'replace').strip()[-300:] or result.detail}"
    succeeded = [str(name) for name in result.value.get("succeeded", ())]
    leaked = sorted(set(result.value.get("environment", ())) - _HARMLESS)
    if leaked:
        succeeded.append(f"see the environment ({', '.join(leaked[:5])})")
    if result.warnings:
        succeeded.append("leave a process behind")
    return f"from inside it was possible to {', '.join(succeeded)}" if succeeded else ""


def _run_to_end(backend: SandboxBackend, job: Job) -> SandboxResult:
    """Run the job now, on a loop of its own: in this thread when it has none, else in another.

    Nothing of the caller's context is there: who listens to the output of a run that waits for the probe would hear the
    probe, and on the wrong loop.
    """

    def run() -> SandboxResult:
        return Context().run(lambda: asyncio.run(backend.run(job)))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1, "skillyard-probe") as thread:
        return thread.submit(run).result()


def _key(name: str, binary: str | None) -> str:
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    changed = Path(binary).stat().st_mtime_ns if binary else 0
    held = _capabilities() if os.geteuid() == 0 else 0  # an ordinary user needs none
    return f"{name} {platform.release()} {boot} {os.geteuid()} {held} {changed} {__version__}"


def _remembered() -> list[str]:
    """The keys of the probes that held, written by this very user."""
    keys = read_private_cache(user_cache_file(_FILE), _KIND, largest=1 << 16)
    return keys if isinstance(keys, list) else []


def _remember(key: str) -> None:
    write_private_cache(user_cache_file(_FILE), _KIND, [*_remembered()[-15:], key])
