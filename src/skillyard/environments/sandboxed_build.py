"""Packages that have no wheel, built inside the sandbox: only where `build = true` allows it, with a network that is the index.

Building runs the package's own code. So all of uv works in a sandbox here: it sees nothing of this machine but uv and Python,
reaches the hosts of the index alone, and what it made comes back as one archive, which is unpacked like a stranger's package.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skillyard.environments.installer import KEPT_VARIABLES, PATIENCE_S, PackageIndex, unavailable
from skillyard.errors import PackageProblem, SandboxUnavailable
from skillyard.sandbox import GrantedEnvironment, Job, Policy, choose_backend
from skillyard.sandbox.process_launch import pick_identity
from skillyard.sandbox.runtimes import reachable
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
            raise unavailable(packages, "nothing here can hold a build", error.hint or error.message) from None
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
