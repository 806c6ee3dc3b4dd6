"""Chooses the backend for a policy: the strongest one that holds here and can enforce all of it, or none at all."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Final

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.sandbox.job import Probe, SandboxBackend, UnmetRequirement
from skillyard.sandbox.policy import Policy

_ONLY_LINUX: Final = ("bwrap", "landlock")
"""The backends that elsewhere cannot be, whose modules cannot be imported there either."""
_NAMES: Final = (*_ONLY_LINUX, "container")
"""The names of the backends, in the order in which they are tried."""

_ELSEWHERE: Final = {
    "darwin": 'on macOS install docker or podman, and name an image that has Python: container-image = "…" in [sandbox]',
    "win32": "on Windows run skills in WSL 2, which is Linux",
}


def backends(*, container_image: str = "") -> tuple[SandboxBackend, ...]:
    """Every backend of this system, in the order in which they are tried.

    `container_image` is what containers are made from; without one, from what is installed here.
    """
    return tuple(_each(_NAMES, container_image))


def _each(names: Collection[str], container_image: str) -> Iterator[SandboxBackend]:
    """The backends of these names that can be on this system, one after the other.

    Each is imported when its turn comes: they load asyncio and more, which nobody needs who only wants to know whether a skill
    could run, and what starts containers is needed where nothing else holds.
    """
    if sys.platform == "linux" and "bwrap" in names:
        from skillyard.sandbox.bubblewrap import BubblewrapBackend

        yield BubblewrapBackend()
    if sys.platform == "linux" and "landlock" in names:
        from skillyard.sandbox.landlock import LandlockBackend

        yield LandlockBackend()
    if "container" in names and (sys.platform == "linux" or (sys.platform != "win32" and container_image)):
        from skillyard.sandbox.container_backend import ContainerBackend

        yield ContainerBackend(container_image)


def choose_backend(policy: Policy, prefer: str | None = None, *, container_image: str = "") -> SandboxBackend:
    """The first backend that can enforce `policy` here; only the one named `prefer` when given.

    `container_image` is the image that the operator names. May probe, which blocks for some tens of milliseconds the first
    time. A requirement is never dropped to make a backend fit.

    Raises:
        SandboxUnavailable: none can; `details["unmet"]` lists why not, `details["remedies"]` what would help.
        InvalidInput: there is no backend of that name.
    """
    if prefer is not None and prefer not in _NAMES:
        raise InvalidInput(f"there is no sandbox named {prefer!r}", hint=f"known: {', '.join(_NAMES)}")
    unmet: list[UnmetRequirement] = []
    remedies: list[str] = []
    for backend in _each(_NAMES if prefer is None else (prefer,), container_image):
        missing = backend.supports(policy)
        if missing:
            unmet += missing
            continue
        probe = backend.probe()
        if probe.ok:
            return backend
        unmet.append(UnmetRequirement(backend.name, probe.reason))
        remedies += probe.remedies
    for probe in _probes_elsewhere(container_image):
        unmet.append(UnmetRequirement(probe.backend, probe.reason))
        remedies += probe.remedies
    raise _unavailable(unmet, remedies)


def _unavailable(unmet: list[UnmetRequirement], remedies: list[str]) -> SandboxUnavailable:
    if any(item.requirement.startswith("network") for item in unmet):
        remedies = [*remedies, "run the skill without network: remove `network: allowlist` from its `security:` block"]
    reasons = "; ".join(dict.fromkeys(f"{item.requirement}: {item.reason}" for item in unmet))
    return SandboxUnavailable(
        f"no sandbox on this machine can enforce what this run needs ({reasons})",
        hint=remedies[0] if remedies else None,
        unmet=[item.to_dict() for item in unmet],
        remedies=list(dict.fromkeys(remedies)),
    )


def probe_all(*, container_image: str = "", container: bool = False) -> tuple[Probe, ...]:
    """Every backend's probe, for `doctor`.

    Containers, which are slow to start, are tried where nothing else holds, and where `container` says that they are chosen.
    """
    probes: list[Probe] = []
    for backend in _each(_NAMES, container_image):
        if backend.name == "container" and not container and any(probe.ok for probe in probes):
            continue
        probes.append(backend.probe())
    return (*_probes_elsewhere(container_image), *probes)


def _probes_elsewhere(container_image: str) -> tuple[Probe, ...]:
    """What there is to say of the backends that cannot be on a system that is not Linux, whose system calls they use."""
    if sys.platform == "linux":
        return ()
    reasons = dict.fromkeys(_ONLY_LINUX, f"sandboxes need Linux, and this is {sys.platform}")
    if sys.platform == "win32":
        reasons["container"] = "containers are started from Linux, and this is win32"
    elif not container_image:
        reasons["container"] = f"containers on {sys.platform} need an image that has Python, and none is named"
    remedy = _ELSEWHERE.get(sys.platform, "run skills on Linux")
    return tuple(Probe(name, ok=False, reason=reason, remedies=(remedy,)) for name, reason in reasons.items())
