"""Commands that are forks of a process with everything imported are processes like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest


def _python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", code, *words]


def test_it_has_its_own_words_folder_environment_and_streams(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), sys.argv, os.environ['A'], sys.stdin.read()); print('late', file=sys.stderr)"
    done = preloaded.run(_python(code, "x"), input="read", capture_output=True, cwd=tmp_path, env={"A": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path} ['-c', 'x'] 1 read\n", "late\n")


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit(3)", 3), ("1 / 0", 1), ("import os; os.kill(os.getpid(), 15)", -15), ("import warnings", 0),
     ("import warnings; warnings.warn('x')", 1), ("import threading; assert threading.active_count() == 1", 0)],
)  # fmt: skip
def test_it_ends_as_it_would_by_itself(code: str, status: int) -> None:
    assert preloaded.run(_python(code), capture_output=True).returncode == status


def test_signals_reach_it_and_it_is_seen_to_end() -> None:
    code = "import os, sys, time; print(os.getsid(0) == os.getpid(), flush=True); time.sleep(600)"
    with preloaded.Popen(_python(code), stdout=preloaded.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_forks_draw_different_numbers() -> None:
    drawn = {preloaded.run(_python("import random; print(random.random())"), capture_output=True).stdout for _ in range(2)}
    assert len(drawn) == 2


def test_it_does_not_outlive_the_process_that_forked_it() -> None:
    forking = f"import sys; sys.path.insert(0, {str(Path(preloaded.__file__).parent)!r}); import preloaded, os, signal\n"
    forking += "child = preloaded.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    forking += "print(child.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", forking], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    while True:
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
