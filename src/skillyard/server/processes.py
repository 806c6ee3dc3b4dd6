"""Several processes for one address: the kernel gives each connection to one of them; one that dies is replaced.

They share nothing but the disk and the records. The first process only watches: it starts the others, and takes them along
when it leaves, however it leaves.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.server.metrics import SHARED
from skillyard.server.serving import serve_here

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from skillyard.server.serving import Listening

__all__ = ["serve_in_processes"]

_LOOK_S: Final = 0.2
_YOUNG_S: Final = 5  # a process that dies younger than this did not start
_DEATHS: Final = 5  # such deaths in a row, and the server gives up
_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger("skillyard.server")


def serve_in_processes(make: Callable[[], FastAPI], listening: socket.socket, how: Listening) -> None:
    """Serve in `how.workers` processes until a signal.

    Raises:
        SkillyardError: the processes die as soon as they are started.
    """
    if how.log:
        from skillyard.server.logs import configure_logs

        configure_logs(how.log)
    with tempfile.TemporaryDirectory(prefix=f"skillyard-metrics-{os.getpid()}-") as folder:
        os.environ[SHARED] = folder
        try:
            _Processes(make, listening, how).run()
        finally:
            del os.environ[SHARED]


class _Processes:
    """The processes of one server, as their parent sees them."""

    def __init__(self, make: Callable[[], FastAPI], listening: socket.socket, how: Listening) -> None:
        self._arguments = (make, listening, how, os.getpid())
        self._how = how
        self._living: dict[BaseProcess, float] = {}
        self._deaths = 0
        self._stop = False

    def run(self) -> None:
        before = {number: signal.signal(number, self._asked_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not self._stop:
                while len(self._living) < self._how.workers and not self._stop:
                    self._start()
                time.sleep(_LOOK_S)
                self._bury()
        finally:
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=self._arguments)
        process.start()
        self._living[process] = time.monotonic()

    def _bury(self) -> None:
        for process, began in list(self._living.items()):
            if process.exitcode is None:
                continue
            del self._living[process]
            _log.warning("process %s of the server ended with %s", process.pid, process.exitcode)
            _forget(process.pid or 0)
            self._deaths = self._deaths + 1 if time.monotonic() - began < _YOUNG_S else 0
            if self._deaths >= _DEATHS:
                raise SkillyardError("the server does not start", hint="its log says why")

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _end_all(self) -> None:
        """Ask all of them to leave, and end those that do not."""
        for process in self._living:
            process.terminate()
        last = time.monotonic() + self._how.drain_s + self._how.grace_s + 10
        for process in self._living:
            process.join(max(0.1, last - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()


def _serve(make: Callable[[], FastAPI], listening: socket.socket, how: Listening, parent: int) -> None:
    """One process: it serves until it is asked to stop, or its parent is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() == parent:
        serve_here(make, listening, how)


def _forget(process: int) -> None:
    """Take what a dead process counted as open out of the metrics."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process)  # type: ignore[no-untyped-call] # it has no types
