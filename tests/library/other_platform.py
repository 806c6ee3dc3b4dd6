"""Play another platform in this process: what it does not have is taken away, then `skillyard` is called with each input line.

Libraries that ask the real platform for something when they are imported are imported before.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import concurrent.futures.thread  # noqa: F401
import contextlib
import ctypes  # noqa: F401
import importlib.abc
import io
import json
import multiprocessing.connection  # noqa: F401
import os
import shutil
import subprocess
import sys
import tempfile  # noqa: F401
from types import SimpleNamespace

import platformdirs  # noqa: F401
import sqlalchemy  # noqa: F401

ONLY_POSIX = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "posix_ipc"}
ONLY_LINUX = {
    "epoll",
    "memfd_create",
    "sched_getaffinity",
    "pidfd_open",
    "O_PATH",
    "O_TMPFILE",
    "posix_fallocate",
    "unshare",
    "setns",
}
NOT_ON_WINDOWS = ONLY_LINUX | {
    "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_SYNC", "O_DSYNC", "geteuid", "getuid", "getegid",
    "getgid", "fork", "fchmod", "fchown", "chown", "killpg", "setsid", "getpgid", "statvfs", "uname", "mkfifo", "mknod",
    "register_at_fork", "posix_spawn", "getloadavg", "pread", "pwrite", "fwalk", "sysconf", "chroot",
}  # fmt: skip


RUNS = {
    "skillyard.sandbox.supervisor",
    "skillyard.sandbox.bubblewrap",
    "skillyard.sandbox.landlock",
    "skillyard.sandbox.cgroups",
}


class Missing(importlib.abc.MetaPathFinder):
    """Modules that the platform does not have."""

    def find_spec(self, name, path=None, target=None):
        if name in ONLY_POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def play(platform: str) -> None:
    if platform == "win32":
        for name in ONLY_POSIX:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, Missing())
        really_open = os.open

        def windows_open(path, flags, mode=0o777, *, dir_fd=None):
            if dir_fd is not None:
                raise NotImplementedError("dir_fd unavailable on this platform")
            if os.path.isdir(path):  # noqa: PTH112
                raise PermissionError(13, "Permission denied", path)
            return really_open(path, flags, mode)

        os.open = windows_open
        os.supports_dir_fd.clear()
        shutil._use_fd_functions = False  # what it finds out on Windows when it is imported
        shutil._winapi = SimpleNamespace(NeedCurrentDirectoryForExePath=lambda _: True)  # since Python 3.12
    subprocess._USE_POSIX_SPAWN = False  # another thing that is found out at the import
    for name in NOT_ON_WINDOWS if platform == "win32" else ONLY_LINUX:
        if hasattr(os, name):
            delattr(os, name)
    sys.platform = platform


if __name__ == "__main__":
    play(sys.argv[1])
    from skillyard.cli import main

    answers = []
    for line in sys.stdin:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(json.loads(line))
        answers.append([code, *(stream.buffer.getvalue().decode() for stream in (out, err))])
    from skillyard.library import Catalog
    from skillyard.tools import SkillTools

    catalog = Catalog.discover(roots=[sys.argv[2]])
    names = [definition["function"]["name"] for definition in SkillTools(catalog).definitions("openai")]
    imported = sorted(RUNS & sys.modules.keys())
    sys.stdout.write(json.dumps({"answers": answers, "tools": names, "sandbox": imported}) + "\n")
