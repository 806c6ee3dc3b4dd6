"""The same promises for an ordinary user: no root, no cgroups, own files within reach."""

from __future__ import annotations

import json

import pytest
from ordinary_user import ordinary_user

_THREADS = 12
"""The most that the program may have, with those of its children that start a run."""
PROGRAM = r"""
import asyncio, json, os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from skillyard.sandbox import Job, Policy, backends, preparation

home = Path(os.environ["HOME"])
secret = home / "secret.txt"
secret.write_text("own-secret")
tree = home / "skill"
tree.mkdir()
(tree / "files.py").write_text('''
import json, os, errno, resource
def attempt(call, *values):
    try:
        call(*values)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
secret, neighbour = json.loads(os.read(0, 4096))
found = {
    "read": attempt(lambda: open(secret).read()), "write": attempt(lambda: open(secret, "a")),
    "chmod": attempt(os.chmod, secret, 0o777), "times": attempt(os.utime, secret, (1, 1)),
    "attribute": attempt(os.setxattr, secret, b"user.x", b"y"), "owner": attempt(os.chown, secret, os.getuid(), os.getgid()),
    "rename": attempt(os.rename, secret, secret + ".moved"), "remove": attempt(os.unlink, secret),
    "truncate": attempt(os.truncate, secret, 0), "home": attempt(os.listdir, os.path.dirname(secret)),
    "link": attempt(os.link, secret, os.environ["TMPDIR"] + "/hard"), "kill": attempt(os.kill, os.getppid(), 9),
    "skill": attempt(os.chmod, __file__, 0o777),
    "limits": attempt(resource.prlimit, neighbour, resource.RLIMIT_NOFILE, (3, 3)),
    "priority": attempt(os.setpriority, os.PRIO_PROCESS, neighbour, 15),
    "processors": attempt(os.sched_setaffinity, neighbour, {0}),
    "scheduling": attempt(os.sched_setscheduler, neighbour, os.SCHED_IDLE, os.sched_param(0)),
    "attribute read": attempt(os.getxattr, secret, b"user.y"),
}
os.write(3, json.dumps(found).encode())
''')
(tree / "hide.py").write_text('''
import os
os.chdir(os.environ["TMPDIR"])
os.mkdir("hidden", 0o300)
os.chdir("hidden")
for _ in range(2000):
    os.mkdir("x")
    os.chdir("x")
''')
(tree / "memory.py").write_text("keep = []\nwhile True: keep.append(bytearray(4 << 20))")
(tree / "sum.py").write_text('''
import os, time
for _ in range(6):
    if os.fork() == 0:
        keep = bytearray(b"x" * (24 << 20))
        time.sleep(20)
        os._exit(0)
time.sleep(20)
''')
(tree / "forks.py").write_text('''
import os, time
made = 0
try:
    while made < 300:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
except OSError:
    pass
os.write(3, str(made).encode())
''')
(tree / "daemon.py").write_text('''
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(20)
    os._exit(0)
''')
(tree / "late.sh").write_text("sleep 20")

async def main():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4))
    report = {}
    for backend in backends()[:2]:
        probe = backend.probe()
        if not probe.ok:
            report[backend.name] = {"probe": probe.reason}
            continue
        async def run(entry, **policy):
            chosen = Policy(**{"timeout_ms": 8000, **policy})
            return await backend.run(Job(str(tree), entry, json.dumps([str(secret), os.getpid()]).encode(), chosen))
        async def folders():  # deleted in a thread after the answer
            for _ in range(3000):
                left = [name for name in os.listdir("/tmp") if name.startswith(f"skillyard-run-{os.getpid()}-")]
                if not left:
                    return []
                await asyncio.sleep(0.01)
            return left
        files = await run("files.py")
        report[backend.name] = {
            "files": files.value, "files status": files.status, "stderr": files.stderr.decode(),
            "memory": (await run("memory.py", memory_mb=64)).status,
            "sum": (await run("sum.py", memory_mb=64)).status,
            "forks": (await run("forks.py", pids=20)).value,
            "daemon": (await run("daemon.py")).warnings,
            "hide": (await run("hide.py")).status,
            "late": (await run("late.sh", timeout_ms=300)).status,
            "left behind": await folders(),
            "secret": secret.read_text(),
            "mode": secret.stat().st_mode & 0o777,
        }
    print(json.dumps(report))

asyncio.run(main())
"""


@pytest.mark.row("000-20", "D-14")
@pytest.mark.abuse("A1", "A5", "A14", "A18", "B1", "B3", "C1", "C3", "C5", on="bwrap, landlock")
def test_an_ordinary_user_is_as_safe_from_a_skill_as_root_is() -> None:
    with ordinary_user(61_234) as user:
        report = json.loads(user.run("-c", PROGRAM))
    assert set(report) == {"bwrap", "landlock"}
    for name, found in report.items():
        assert isinstance(found, dict)
        assert found.get("files status") == "ok", (name, found)
        assert "done" not in {key: value for key, value in found["files"].items() if key != "kill"}.values(), (name, found)
        assert (found["memory"], found["sum"], found["late"]) == ("memory", "memory", "timeout"), (name, found)
        # Landlock's limit is added to the threads that the user has when the run begins: those of this program that end
        # meanwhile leave their places to the run, and each run is in a kernel's count of its own in bubblewrap.
        assert 0 < found["forks"] <= 20 + (_THREADS if name == "landlock" else 0), (name, found)
        assert found["daemon"] == []
        assert found["hide"] in ("ok", "output_limit")
        assert found["left behind"] == []
        assert found["secret"] == "own-secret"
        assert found["mode"] & 0o077 == 0o044 & found["mode"]
    metadata = {key: report["landlock"]["files"][key] for key in ("chmod", "times", "attribute", "owner")}
    assert set(metadata.values()) == {"EPERM"}
