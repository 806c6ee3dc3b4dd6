"""An ordinary user of this machine: a home, a copy of the library to read, and programs that run as this user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

__all__ = ["OrdinaryUser", "ordinary_user", "readable"]


class OrdinaryUser:
    """The user `number` with `home` and `library` in `folder`; where the tests are not run by root, the one who runs them.

    Each test has a number of its own, because the kernel counts processes by user.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.home, self.library = folder, folder / "home", folder / "lib"
        self._number = number

    def owns(self, *paths: Path) -> None:
        """Give files to the user."""
        for path in paths:
            if os.geteuid() == 0:
                os.chown(path, self._number, self._number)

    def run(
        self, *arguments: str, path: str = "/usr/bin:/bin", timeout: float = 100, fails: bool = False, **environment: str
    ) -> str:
        """Run Python as the user and give what it writes; `fails`: whatever its exit status."""
        from skillyard.sandbox.runtimes import runtime_for

        root = os.geteuid() == 0
        cache = {"PYTHONPYCACHEPREFIX": str(self.home / ".pycache")}  # what one run has compiled the next need not
        done = subprocess.run(
            [runtime_for("x.py", as_other=True).program if root else sys.executable, *arguments],
            env={"HOME": str(self.home), "PYTHONPATH": str(self.library), "PATH": path, **cache, **environment},
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=timeout,
            check=False,
            **({"user": self._number, "group": self._number, "extra_groups": []} if root else {}),
        )
        assert fails or done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        return done.stdout


@contextmanager
def ordinary_user(number: int, *packages: ModuleType) -> Iterator[OrdinaryUser]:
    """A user who can read Skillyard and these packages."""
    import skillyard

    user = OrdinaryUser(Path(tempfile.mkdtemp(prefix="ordinary-")), number)
    try:
        user.folder.chmod(0o755)
        for package in (skillyard, *packages):
            source = Path(str(package.__file__)).parent
            shutil.copytree(source, user.library / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        readable(user.library)
        user.home.mkdir()
        user.owns(user.home)
        yield user
    finally:
        shutil.rmtree(user.folder, ignore_errors=True)


def readable(folder: Path) -> None:
    """Let everybody read a folder and what is in it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
