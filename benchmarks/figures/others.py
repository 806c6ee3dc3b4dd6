"""Other sandboxes, run on the same script; each only where it is installed."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

__all__ = ["SandboxRuntime"]

_PACKAGE = "node_modules/@anthropic-ai/sandbox-runtime"


class SandboxRuntime:
    """The library `@anthropic-ai/sandbox-runtime` of npm, initialised once in one node process that stays."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, work: Path) -> SandboxRuntime | None:
        """The library installed in the folder that SRT names; `None` without that, or where it does not start.

        `work` is where it stands: it searches that folder for files to protect.
        """
        folder, node = os.environ.get("SRT", ""), shutil.which("node")
        if not folder or not node or not Path(folder, _PACKAGE).is_dir():
            return None
        program = Path(__file__).with_name("srt.mjs")
        pipe = asyncio.subprocess.PIPE
        command = (node, str(program), str(Path(folder).resolve()))
        made = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=work))
        if await made._line() == "ready":
            return made
        await made.close()
        return None

    async def run(self, command: str) -> float:
        """The milliseconds to wrap and run one command, by node's own clock.

        Raises:
            RuntimeError: the command failed, so there is nothing to compare.
        """
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n".encode())
        answer = await self._line()
        try:
            return float(answer)
        except ValueError:
            raise RuntimeError(f"the sandbox runtime of npm: {answer or 'no answer'}") from None

    async def _line(self) -> str:
        assert self._process.stdout
        return (await self._process.stdout.readline()).decode().strip()

    async def close(self) -> None:
        """End it."""
        if self._process.stdin:
            self._process.stdin.close()
        await self._process.wait()
