"""Work on untrusted text, in helper processes that can be killed: `run_in_helper` and `run_in_helper_async`.

A thread is not enough for such work: a regular expression, a parser in C or a schema check holds the interpreter's lock until
it is done, and no thread can be ended from outside. A helper is a process of ours with a deadline and a memory limit. It is no
sandbox: it runs only functions of Skillyard, never code of a skill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.offload.helper import report_progress
    from skillyard.offload.helper_pool import (
        HelperPool,
        WorkLimits,
        WorkOutcome,
        observe_helpers,
        run_in_helper,
        run_in_helper_async,
    )

__all__ = [
    "HelperPool",
    "WorkLimits",
    "WorkOutcome",
    "observe_helpers",
    "report_progress",
    "run_in_helper",
    "run_in_helper_async",
]


# `forked_map` next to the pool is part of every first list, which needs no pool.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "helper": ("report_progress",),
        "helper_pool": ("HelperPool", "WorkLimits", "WorkOutcome", "observe_helpers", "run_in_helper", "run_in_helper_async"),
    },
)
