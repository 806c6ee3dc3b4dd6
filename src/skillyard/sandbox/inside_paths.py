"""Where a process with file systems of its own finds what it is given, whichever program makes them.

The skill is at `/skill`, its files to work on at `/workspace`, what Skillyard adds below `/opt/skillyard`, and the machine's
own programs at their usual places.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillyard.sandbox.environment import base_environment, proxy_environment
from skillyard.sandbox.job import NODE_PACKAGES_INSIDE, SEEN_INSIDE
from skillyard.sandbox.preparation import PreparedRun
from skillyard.sandbox.process_launch import PROXY_PORT
from skillyard.sandbox.runtimes import is_system
from skillyard.sandbox.session_preparation import PreparedSession
from skillyard.sandbox.staging import StagedCopy

OWN_FOLDER: Final = "/opt/skillyard/"
SCRATCH: Final = "/tmp"  # noqa: S108 # the run's own: new, empty and sized
TOP_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives")
# Where distributions keep the authorities that programs trust; seen only by a run that may reach hosts.
CERTIFICATES: Final = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted")

# What programs of a session serve to each other is in its own network and not the proxy's concern.
_OWN_SERVERS: Final = dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")


@lru_cache(maxsize=16)
def small_files(uid: int, gid: int) -> Mapping[str, bytes]:
    """What programs look up about users and hosts, by path; the machine's own files stay outside."""
    return {
        "/etc/passwd": f"skill:x:{uid}:{gid}:skill:/tmp:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n".encode(),
        "/etc/group": f"skill:x:{gid}:\nnogroup:x:65534:\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "/etc/hosts": b"127.0.0.1 localhost sandbox\n",
        "/etc/resolv.conf": b"",
    }


def runner_inside(run: PreparedRun) -> str:
    """The path of our own script that starts the skill's."""
    return OWN_FOLDER + Path(run.stage.runner).name


def run_imports(run: PreparedRun) -> list[tuple[str, str]]:
    """What the script may import, and where: beside the runner for Python, at the root for node, which looks upwards."""
    stage, mounts = run.stage, []
    if stage.library:
        name = Path(stage.library).name
        mounts.append((stage.library, f"/{name}" if run.runtime.kind == "node" else OWN_FOLDER + name))
    return [*mounts, *granted_mounts(stage)]


def granted_mounts(stage: StagedCopy) -> list[tuple[str, str]]:
    """What is granted, and where it is seen; where our own library has links to npm packages, it is mounted already."""
    mounts: list[tuple[str, str]] = []
    if stage.packages:
        mounts.append((os.path.realpath(stage.packages), SEEN_INSIDE.packages))
    if stage.linked:
        mounts.append((os.path.realpath(stage.linked), NODE_PACKAGES_INSIDE))
    elif stage.modules:
        mounts.append((os.path.realpath(stage.modules), SEEN_INSIDE.modules))
    if stage.commands:
        mounts.append((stage.commands, SEEN_INSIDE.commands))
    others = (path for path in stage.environment.mounts if not is_system(path) and not path.startswith("/proc/"))
    return [*mounts, *((os.path.realpath(path), path) for path in others)]  # it has a /proc of its own


def run_variables(run: PreparedRun) -> dict[str, str]:
    """The variables of a run."""
    granted = run.stage.environment.process_variables(base_environment(scratch=SCRATCH), SEEN_INSIDE)
    proxy = proxy_environment(PROXY_PORT) if run.policy.reaches_network else {}
    return {**granted, **run.policy.environment, **proxy}


def session_variables(session: PreparedSession) -> dict[str, str]:
    """The variables of a session."""
    proxy = {**proxy_environment(PROXY_PORT), **_OWN_SERVERS} if session.policy.reaches_network else {}
    return {**session.environment(scratch=SCRATCH, programs=f"{OWN_FOLDER}bin", seen=SEEN_INSIDE), **proxy}
