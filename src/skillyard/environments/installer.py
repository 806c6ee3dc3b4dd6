"""One call of an installer (uv, npm): in a folder of its own, through the proxy of its index, with a deadline and a reason."""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.environments.package_index import PackageIndex, index_proxy
from skillyard.errors import DependenciesUnavailable
from skillyard.files import locked_scratch
from skillyard.text import single_line

PATIENCE_S: Final = 300
"""How long one call of an installer may take."""
_MOST_REASON: Final = 1_000
_SCRATCH: Final = "new-"
ALLOW: Final = (
    "allow it once with --install, for this skill with `skillyard environment allow`, or for all runs with "
    "`install-dependencies = true` in the [sandbox] table of skillyard.toml"
)


def environments_folder() -> Path:
    """Where environments and their locks are kept."""
    from skillyard.catalog import home_directory

    return Path(home_directory(), "cache", "environments")


def text_digest(text: str) -> str:
    """The name of what is made from this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def unavailable(packages: Sequence[str], what: str, hint: str) -> DependenciesUnavailable:
    """The error about packages that are not there."""
    return DependenciesUnavailable(f"{what}: {', '.join(packages)}", hint=hint, dependencies=list(packages))


def _bare(package: str) -> str:
    """The name of a package without its version, as an installer writes it."""
    return re.match(r"@?[^@\s<>=!~;\[(,]*", package.lower())[0].strip()  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class InstallCall:
    """One command of an installer in the folder `work`; `environment` gives its variables for a proxy and an empty home.

    `packages` are what errors name, `reasons` pairs of a pattern of the installer's output and what it means.
    """

    tool: str
    command: tuple[str, ...]
    work: str
    index: PackageIndex
    packages: tuple[str, ...]
    environment: Callable[[str, str], Mapping[str, str]]
    reasons: tuple[tuple[re.Pattern[str], str], ...]
    hosts_setting: str

    def run(self) -> None:
        """Run it to its end; nothing of it is left when this returns.

        Raises:
            DependenciesUnavailable: it fails, or takes too long; the message says which of the known reasons it was.
        """
        import tempfile

        with index_proxy(self.index) as (proxy_url, proxy), tempfile.TemporaryDirectory(prefix="skillyard-install-") as home:
            code, output = self._output(self.environment(proxy_url, home))
            refused = sorted({contact.host for contact in proxy.contacts if contact.verdict == "denied"})
        if code == 0:
            return
        why = re.sub(r"(?i)^(?:npm )?error:? ", "", single_line(output))[:_MOST_REASON]
        meaning = next((meaning for pattern, meaning in self.reasons if pattern.search(output)), "")
        if refused:
            meaning = f"the index leads to {', '.join(refused)}: name it in `{self.hosts_setting}` if you trust it"
        what = f"the packages cannot be installed ({meaning})" if meaning else "the packages cannot be installed"
        named = [package for package in self.packages if _bare(package) in output.lower()] if meaning else []
        raise unavailable(named or self.packages, what, f"{self.tool} says: {why}" if why else f"{self.tool} gives no reason")

    def _output(self, environment: Mapping[str, str]) -> tuple[int, str]:
        import os
        import subprocess

        process = subprocess.Popen(  # noqa: S603
            self.command, cwd=self.work, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            data, _ = process.communicate(timeout=PATIENCE_S)
        except BaseException as error:  # also when the caller is interrupted: no installer works on alone
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                hint = "try again, or check the network"
                raise unavailable(self.packages, f"{self.tool} took longer than {PATIENCE_S} seconds", hint) from None
            raise
        return process.returncode, shorten_output(data)


def shorten_output(data: bytes) -> str:
    """What an installer wrote, at most the first and last 32 KiB of it."""
    most = 32 * 1024
    kept = data if len(data) <= 2 * most else data[:most] + b"\n" + data[-most:]
    return kept.decode("utf-8", "replace")


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """A folder to make something in that is then moved beside; what a killed process left there is removed first."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locked_scratch(folder, _SCRATCH) as work:
        yield Path(work)


def move_into_place(made: Path, target: Path) -> None:
    """Give a finished folder its name; where another process was faster, its folder stays."""
    made.chmod(0o755)
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
