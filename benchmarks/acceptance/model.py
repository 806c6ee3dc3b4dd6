"""A scripted model: it calls the tools that a model is offered as a skill's text says, and reads the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from skillyard.tools import ToolResult

_FENCE = re.compile(r"\A<\w+ nonce=\"[0-9a-f]+\">\n(.*)\n</\w+ nonce=\"[0-9a-f]+\">\Z", re.DOTALL)
_SKILL_FOLDER = re.compile(r"^Skill directory: (/.+)$", re.MULTILINE)


class ToolCall(Protocol):
    """From a call of a model to its result."""

    async def __call__(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Call a tool."""


class StepFailed(Exception):
    """A step of a skill did not do what its text says, or a product is not what was wanted."""


def expect(condition: object, what: str) -> None:
    """Fail with a sentence when something is not as it has to be."""
    if not condition:
        raise StepFailed(what)


class ScriptedModel:
    """Follows one skill in the workspace `folder`; a call that fails ends it, unless `fails` says that it has to.

    `steps` counts the calls.
    """

    def __init__(self, call: ToolCall, folder: Path, skill: str) -> None:
        self._call = call
        self.folder = folder
        self.skill = skill
        self.skill_folder = ""
        self.steps = 0

    async def use(self, tool: str, *, fails: bool | None = False, **arguments: object) -> ToolResult:
        """Call a tool; with `fails=None` it may fail or not."""
        self.steps += 1
        result = await self._call(tool, arguments)
        if fails is not None and result.ok == fails:
            shown = str(arguments.get("command") or arguments.get("code") or arguments)[:200]
            raise StepFailed(f"step {self.steps}, {tool} {shown!r}: {result.code}: {_inner(result.text)[-1500:]}")
        return result

    async def load(self) -> str:
        """Load the skill, as its text in the index says: its text, which names the folder that it is in."""
        text = (await self.use("skill", skill=self.skill)).text
        folder = _SKILL_FOLDER.search(text)
        expect(folder, f"the answer for {self.skill} does not say where its folder is")
        self.skill_folder = folder[1] if folder else ""
        return text

    async def skill_file(self, path: str) -> str:
        """Read another file of the skill."""
        return (await self.use("read_skill_file", skill=self.skill, file_path=path)).text

    async def bash(self, command: str, *, timeout: int = 300_000, fails: bool = False) -> str:
        """Run a command; `{skill}` in it is the folder of the skill. What it wrote."""
        command = command.replace("{skill}", self.skill_folder)
        return _inner((await self.use("bash", command=command, timeout=timeout, fails=fails)).text)

    async def bash_until(self, command: str, remedies: Mapping[str, str]) -> str:
        """Run a command; where it fails, do what a text of its output calls for, each once, and run it again.

        `remedies` has the pattern of such a text and the command that it calls for. What the command wrote in the end.
        """
        left = dict(remedies)
        while True:
            command = command.replace("{skill}", self.skill_folder)
            result = await self.use("bash", command=command, timeout=600_000, fails=None)
            text = _inner(result.text)
            if result.ok:
                return text
            called = next((pattern for pattern in left if re.search(pattern, text)), None)
            if called is None:
                raise StepFailed(f"step {self.steps}, bash {command[:200]!r}: {result.code}: {text[-1500:]}")
            await self.bash(left.pop(called))

    async def start(self, command: str) -> str:
        """Start a background process; its id."""
        result = await self.use("bash", command=command.replace("{skill}", self.skill_folder), background=True)
        return str(result.data["process"])

    async def python(self, code: str, *, fails: bool = False) -> str:
        """Run Python code; `{skill}` in it is the folder of the skill. What it wrote."""
        code = code.replace("{skill}", self.skill_folder)
        return _inner((await self.use("code_run", language="python", code=code, timeout=300_000, fails=fails)).text)

    async def javascript(self, code: str) -> str:
        """Run JavaScript. What it wrote."""
        return _inner((await self.use("code_run", language="javascript", code=code, timeout=300_000)).text)

    async def write(self, path: str, content: str) -> None:
        """Write a file."""
        await self.use("file_write", file_path=path, content=content)

    async def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text in a file."""
        await self.use("file_edit", file_path=path, old_string=old, new_string=new)

    async def look(self, path: str) -> int:
        """Read a picture or a PDF; how many pictures came."""
        return len((await self.use("file_read", file_path=path)).images)

    def product(self, path: str) -> Path:
        """A file of the workspace on this machine, for another program.

        Raises:
            StepFailed: it is not there, or it is no regular file.
        """
        found = self.folder / path
        expect(found.is_file() and not found.is_symlink(), f"there is no {path}")
        return found


def _inner(text: str) -> str:
    """The text inside the fence of an answer."""
    match = _FENCE.match(text.strip())
    return match[1] if match else text
