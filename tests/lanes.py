"""How pytest-xdist shares the suite out: one process for each processor computes, and some more wait for servers and clocks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WAITING = 2  # processes beside those that compute; each collects all tests
# The components whose tests take longest are outermost.
_WAITS = ("soak", "registry", "engine", "database", "access", "memory", "sandbox", "offload")
_COMPUTES = (
    "library",
    "search",
    "packages",
    "tools",
    "interop",
    "permissions",
    "cli",
    "execution",
    "mcp",
    "conversations",
    "house",
    "clients",
    "web",
)


def processors() -> int:
    """How many of them this process may use."""
    return len(os.sched_getaffinity(0))


def place(component: str) -> tuple[int, int]:
    """The place of the tests of a component in the order: those that wait come first, those that compute last."""
    if component in _WAITS:
        return 0, _WAITS.index(component)
    return (2, _COMPUTES.index(component)) if component in _COMPUTES else (1, 0)


class Lanes(LoadGroupScheduling):
    """Processes that compute take from the end of the line, the others from its beginning, until they meet."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._computes(node):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _pending_of(self, workload: Any) -> int:
        """How many tests are left of what a process was given; pytest-xdist 3.8 counts at each test all that it ever had."""
        for scope in [scope for scope, tests in workload.items() if all(tests.values())]:
            del workload[scope]
        return int(super()._pending_of(workload))

    def _computes(self, node: Any) -> bool:
        """Whether it is one of those that compute; a process that takes the place of one that crashed counts on."""
        return int(node.gateway.id.removeprefix("gw")) % self.numnodes < min(processors(), max(1, self.numnodes - WAITING))
