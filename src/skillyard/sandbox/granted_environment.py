"""What a process in a sandbox is granted beside its own files: installed packages, programs with what they read, variables.

The same value serves one run and a session that stands for a while. Everything in it is seen read-only. Folders of packages are
on this machine; where the process finds them depends on the backend, so `process_variables` is told where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.network.hosts import ANY_HOST
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.sandbox.policy import Policy


class PackageFolders(NamedTuple):
    """Where a process sees what it is granted: Python packages, `node_modules`, and the commands that are made for it."""

    packages: str
    modules: str
    commands: str


SEEN_INSIDE: Final = PackageFolders("/opt/skillyard/packages", "/node_modules", "/opt/skillyard/commands")
"""Where a process under bubblewrap sees it."""
NODE_PACKAGES_INSIDE: Final = "/opt/skillyard/npm/node_modules"
"""Where it sees its npm packages when our own library is at `/node_modules`, which then has a link to each of them."""
_FLOORS: Final = ("memory_mb", "pids", "timeout_ms", "tmp_mb", "file_size_mb", "nofile")


@dataclass(frozen=True, slots=True)
class GrantedEnvironment(WireForm):
    """Packages, programs and what they need.

    `python_packages` is a folder of installed Python packages (its `bin` has their commands), `node_modules` one that npm has
    filled, both absolute paths of this machine, empty for none. `programs` are the names of granted programs, `path` folders
    with programs beside the usual ones, `mounts` files and folders that the process sees at the same place. `variables` are set
    for it; `{commands}` in one is the folder of the commands. `commands` are small shell scripts by name, found before the
    programs of that name, or by their path in that folder; with `local_sockets` its processes may talk through sockets, where
    the backend has a network of its own. `needs` are the least limits that the programs work with, by the names of a policy.
    `hosts` are registries of packages that it may reach, as entries of an allow-list.
    `digest` names the content: equal digests are equal environments.
    """

    python_packages: str = ""
    node_modules: str = ""
    programs: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    needs: Mapping[str, int] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    commands: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    local_sockets: bool = False
    hosts: tuple[str, ...] = ()
    digest: str = ""

    def process_variables(self, base: Mapping[str, str], seen: PackageFolders) -> dict[str, str]:
        """The variables of a process that has those of `base` and finds what it is granted in the folders `seen`."""
        own = {name: value.replace("{commands}", seen.commands) for name, value in self.variables.items()}
        variables = {**base, **own}
        if self.python_packages:
            variables["PYTHONPATH"] = seen.packages  # for the Pythons that the script itself starts
        if self.node_modules:
            variables["NODE_PATH"] = seen.modules
        entries = (
            seen.commands if self.commands else "",
            f"{seen.packages}/bin" if self.python_packages else "",
            f"{seen.modules}/.bin" if self.node_modules else "",
            *self.path,
        )
        variables["PATH"] = ":".join((*filter(None, entries), base["PATH"]))
        return variables

    def raised(self, policy: Policy, *, fixed: frozenset[str] = frozenset()) -> Policy:
        """The policy with at least the limits that the granted programs work with, but for those that are `fixed`.

        The granted registries are hosts of its allow-list, and trusted; an operator's `network` that is `fixed` stays.
        """
        higher = {
            name: self.needs[name] for name in _FLOORS if name not in fixed and self.needs.get(name, 0) > getattr(policy, name)
        }
        raised = replace(policy, **higher) if higher else policy  # type: ignore[arg-type] # whole numbers of the same fields
        if not self.hosts or (policy.network == "none" and "network" in fixed):
            return raised
        known = policy.network_allowlist if policy.network == "allowlist" else ()
        hosts = known if ANY_HOST in known else tuple(dict.fromkeys((*known, *self.hosts)))
        return replace(raised, network="allowlist", network_allowlist=hosts, trusted_hosts=self.hosts)


NOTHING_GRANTED: Final = GrantedEnvironment()
