"""What is watched of a skill: its scripts and the commands of its text, the secrets that its files name, and its texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.document.front_matter import CodeBlock, read_body
from skillyard.scanner.source_texts import FENCES, ScannedFile, decoded, evidence_of, language_of
from skillyard.scanner.watch_effects import SkillTexts

_MOST_COMMANDS: Final = 64
_FIRST_SCRIPTS: Final = 12
"""How many scripts are run before the commands of the text."""
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": ("--script",),
    ".sh": ("bash",), ".bash": ("bash",), ".command": ("bash",), ".zsh": ("bash",),
    ".js": ("node",), ".cjs": ("node",), ".mjs": ("node",), ".ts": ("node", "--no-warnings", "--experimental-strip-types"),
    ".pl": ("perl",), ".rb": ("ruby",),
}  # fmt: skip
_LANGUAGES: Final = {"python": ".py", "shell": ".sh", "javascript": ".js"}
_RUNNABLE: Final = re.compile(
    r"(?:[$>] )?(?:sudo |env )?(?:curl|wget|ba?sh|zsh|python3?|node|npx|npm|pip3?|uvx?|git|chmod|echo|printf|cd|mkdir|cp|mv|rm|cat|export|tar|"
    r"unzip|openssl|base64|crontab|systemctl|source|eval|\./|~/|brew|apt(?:-get)?)\b"
)
_INLINE: Final = re.compile(r"(?<!`)`((?:curl|wget|bash|sh|python3?|node|npx|echo|openssl|sudo|eval)\s[^`\n]{4,600})`(?!`)")
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][A-Za-z0-9 _./|-]{0,40}>")
_OWN_FOLDER: Final = re.compile(
    r"\{baseDir\}|\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|CLAUDE_PLUGIN_ROOT|SKILL_PATH|SKILL_ROOT)\}?|/path/to/skill"
)
_SAYS_SOMETHING: Final = re.compile(r"\s*[^\s#]")
_PROMPT: Final = re.compile(r"^\$ ", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,20}){1,5}\b")
_MOST_VARIABLES: Final = 30
_MOST_TEXT: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunnableCommand:
    """What runs one script, or a command of a text: the file and line it is from, and its words.

    `text` is that of a command or example as it is written; empty for a script.
    """

    by: str
    line: int
    argv: tuple[str, ...]
    text: str = ""


def find_commands(files: Mapping[str, ScannedFile], skill: str, miss: Callable[[str], object]) -> list[RunnableCommand]:
    """What is run of a skill that is called `skill` in its world: scripts, those that its text names first, then its commands.

    What cannot be run is reported to `miss`.
    """
    text = decoded(files["SKILL.md"].data) or "" if "SKILL.md" in files else ""
    scripts = [one for name, file in files.items() if (one := _script(name, file, skill, miss))]
    scripts.sort(key=lambda one: (Path(one.by).name not in text, one.by.count("/"), one.by))
    found = [*scripts[:_FIRST_SCRIPTS], *_commands_of("SKILL.md", text)]
    for name in sorted(files):
        if name != "SKILL.md" and name.lower().endswith(".md") and "/" not in name:
            found += _commands_of(name, decoded(files[name].data) or "")
    found += scripts[_FIRST_SCRIPTS:]
    if len(found) > _MOST_COMMANDS:
        miss(f"{len(found) - _MOST_COMMANDS} more scripts and commands: {_MOST_COMMANDS} are run of one skill")
    return list(dict.fromkeys(found[:_MOST_COMMANDS]))


def _script(name: str, file: ScannedFile, skill: str, miss: Callable[[str], object]) -> RunnableCommand | None:
    path = f"/workspace/skills/{skill}/{name}"
    ending = Path(name).suffix.lower()
    text = decoded(file.data)
    if ending == ".py" and text is not None and not any(_SAYS_SOMETHING.match(line) for line in text.splitlines()):
        return None  # as most `__init__.py`: there is nothing in it
    if ending in _ENDINGS:
        return RunnableCommand(name, 1, (*_ENDINGS[ending], path))
    if text is not None and text.startswith("#!") and (language := language_of(name, text)) in _LANGUAGES:
        return RunnableCommand(name, 1, (*_ENDINGS[_LANGUAGES[language]], path))
    if ending in (".ps1", ".bat", ".cmd", ".exe", ".dll", ".jar", ".php", ".go", ".rs"):
        miss(f"{evidence_of(name)}: nothing here runs it")
    return None


def _commands_of(name: str, text: str) -> Iterator[RunnableCommand]:
    """The commands that a text tells to run: fenced blocks of a shell and of Python, and commands inside of lines."""
    prose, blocks = _prose_and_blocks(text)
    for block in blocks:
        language = FENCES.get(block.language)
        if language == "python":
            example = _filled(block.text)
            file = f"/workspace/.world/examples/{hashlib.sha256(example.encode('utf-8', 'replace')).hexdigest()[:16]}.py"
            yield RunnableCommand(name, block.line, ("--example", file), example)
        elif language == "shell" or (not block.language and _RUNNABLE.match(block.text.lstrip())):
            yield RunnableCommand(name, block.line, ("bash", "-c", _filled(_without_prompts(block.text))), block.text)
    for match in list(_INLINE.finditer(prose))[:_MOST_COMMANDS]:
        yield RunnableCommand(name, prose.count("\n", 0, match.start()) + 1, ("bash", "-c", _filled(match[1])), match[1])


def _prose_and_blocks(text: str) -> tuple[str, Sequence[CodeBlock]]:
    """A text without its blocks of code, its lines where they were, and the blocks."""
    _, blocks = read_body(text)
    lines = text.splitlines(keepends=True)
    for block in blocks:
        within = slice(block.line - 1, block.line + block.text.count("\n") + 1)
        lines[within] = ["\n"] * len(lines[within])
    return "".join(lines), blocks


def _without_prompts(text: str) -> str:
    """What is typed, of a text that shows answers too."""
    if not _PROMPT.search(text):
        return text
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))


def _filled(text: str) -> str:
    """Commands with a sample for what the reader is to fill in."""
    return _PLACEHOLDER.sub("/workspace/project/sample.txt", _OWN_FOLDER.sub(".", text))[:65_536].replace("\0", "")


def secret_variables(files: Mapping[str, ScannedFile]) -> list[str]:
    """The names of variables with secrets that stand in the skill's files."""
    from skillyard.sandbox.policy import is_secret_name, name_problem

    text = "\n".join(decoded(file.data) or "" for file in files.values())
    names = dict.fromkeys(_VARIABLE.findall(text[:_MOST_TEXT]))
    return [name for name in names if is_secret_name(name) and name_problem(name) is None][:_MOST_VARIABLES]


def texts_of(files: Mapping[str, ScannedFile], skill: str) -> SkillTexts:
    """The texts of a skill that is called `skill` in its world, by which it is judged what it says that it does."""
    whole = {name: (decoded(file.data) or "").lower() for name, file in files.items()}
    instructions = [text for name, text in whole.items() if name.lower().endswith((".md", ".txt", ".markdown"))]
    prose = "\n".join(_prose_and_blocks(text)[0] for text in instructions)
    return SkillTexts("\n".join(instructions), prose, "\n".join(whole.values()), f"skills/{skill}")
