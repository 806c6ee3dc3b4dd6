"""Chooses the backend for a policy: the strongest one that holds here and can enforce all of it, or none at all."""

from __future__ import annotations

import sys
from typing import Final

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.sandbox.job import Probe, SandboxBackend, UnmetRequirement
from skillyard.sandbox.policy import Policy

_NAMES: Final = ("bwrap", "landlock")
"""The names of the backends, strongest first; where they cannot be, their modules cannot be imported either."""

_ELSEWHERE: Final = "run skills on Linux: in a virtual machine, a container or WSL 2"


def backends() -> tuple[SandboxBackend, ...]:
    """Every backend, strongest first."""
    # They load asyncio and more, which nobody needs who only wants to know whether a skill could run.
    from skillyard.sandbox.bubblewrap import BubblewrapBackend
    from skillyard.sandbox.landlock import LandlockBackend

    return (BubblewrapBackend(), LandlockBackend())


def choose_backend(policy: Policy, prefer: str | None = None) -> SandboxBackend:
    """The first backend that can enforce `policy` here; only the one named `prefer` when given.

    May probe, which blocks for some tens of milliseconds the first time. A requirement is never dropped to make a backend fit.

    Raises:
        SandboxUnavailable: none can; `details["unmet"]` lists why not, `details["remedies"]` what would help.
        InvalidInput: there is no backend of that name.
    """
    unmet: list[UnmetRequirement] = []
    remedies: list[str] = []
    if sys.platform != "linux":
        probes = _probes_elsewhere()
        raise _unavailable([UnmetRequirement(probe.backend, probe.reason) for probe in probes], [_ELSEWHERE])
    for backend in _candidates(prefer):
        missing = backend.supports(policy)
        if missing:
            unmet += missing
            continue
        probe = backend.probe()
        if probe.ok:
            return backend
        unmet.append(UnmetRequirement(backend.name, probe.reason))
        remedies += probe.remedies
    raise _unavailable(unmet, remedies)


def _candidates(prefer: str | None) -> tuple[SandboxBackend, ...]:
    every = backends()
    if prefer is None:
        return every
    chosen = tuple(backend for backend in every if backend.name == prefer)
    if not chosen:
        raise InvalidInput(f"there is no sandbox named {prefer!r}", hint=f"known: {', '.join(item.name for item in every)}")
    return chosen


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


def probe_all() -> tuple[Probe, ...]:
    """Every backend's probe, for `doctor`."""
    if sys.platform != "linux":
        return _probes_elsewhere()
    return tuple(backend.probe() for backend in backends())


def _probes_elsewhere() -> tuple[Probe, ...]:
    """What there is to say of the backends on a system that is not Linux, whose system calls they use."""
    reason = f"sandboxes need Linux, and this is {sys.platform}"
    return tuple(Probe(name, ok=False, reason=reason, remedies=(_ELSEWHERE,)) for name in _NAMES)
