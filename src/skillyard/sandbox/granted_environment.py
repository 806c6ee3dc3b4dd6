"""What a process in a sandbox is granted beside its own files: installed packages, programs with what they read, variables.

The same value serves one run and a session that stands for a while. Everything in it is seen read-only. Folders of packages are
on this machine; where the process finds them depends on the backend, so `python_variables` and `path_entries` are told where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.sandbox.policy import Policy


PACKAGES_INSIDE: Final = "/opt/skillyard/packages"
"""Where a run under bubblewrap sees its Python packages."""
NODE_PACKAGES_INSIDE: Final = "/opt/skillyard/npm/node_modules"
"""Where it sees its npm packages, each of which has a link in `/node_modules`, which node finds from every folder."""
_FLOORS: Final = ("memory_mb", "pids", "timeout_ms", "tmp_mb", "file_size_mb", "nofile")


@dataclass(frozen=True, slots=True)
class GrantedEnvironment(WireForm):
    """Packages, programs and what they need.

    `python_packages` is a folder of installed Python packages (its `bin` has their commands), `node_modules` one that npm has
    filled, both absolute paths of this machine, empty for none. `programs` are the names of granted programs, `path` folders
    with programs beside the usual ones, `mounts` files and folders that the process sees at the same place. `variables` are set
    for it. `needs` are the least limits that the programs work with, by the names of a policy. `digest` names the content:
    equal digests are equal environments.
    """

    python_packages: str = ""
    node_modules: str = ""
    programs: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    needs: Mapping[str, int] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    digest: str = ""

    def path_entries(self, python_packages: str, node_modules: str) -> tuple[str, ...]:
        """The folders of commands that come before the usual ones, where the process sees its packages in these folders."""
        commands = [f"{python_packages}/bin"] if self.python_packages else []
        return (*commands, *([f"{node_modules}/.bin"] if self.node_modules else ()), *self.path)

    def process_variables(self, base: Mapping[str, str], python_packages: str, node_modules: str) -> dict[str, str]:
        """The variables of a process that has those of `base` and sees its packages in these folders."""
        variables = {**base, **self.variables}
        if self.python_packages:
            variables["PYTHONPATH"] = python_packages  # for the Pythons that the script itself starts
        if self.node_modules:
            variables["NODE_PATH"] = node_modules
        if entries := self.path_entries(python_packages, node_modules):
            variables["PATH"] = ":".join((*entries, base["PATH"]))
        return variables

    def raised(self, policy: Policy, *, fixed: frozenset[str] = frozenset()) -> Policy:
        """The policy with at least the limits that the granted programs work with, but for those that are `fixed`."""
        higher = {
            name: self.needs[name] for name in _FLOORS if name not in fixed and self.needs.get(name, 0) > getattr(policy, name)
        }
        return replace(policy, **higher) if higher else policy  # type: ignore[arg-type] # whole numbers of the same fields


NOTHING_GRANTED: Final = GrantedEnvironment()
