"""What a Python script says it needs in its `# /// script` block (PEP 723)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from skillyard.errors import NotExecutable

__all__ = ["ScriptBlock", "read_script_block"]

_BLOCK: Final = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
# A package by name, with extras, versions and markers; no address, no path, no option.
_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._,\s-]*\])?\s*(?:\(?[<>=!~][^@;/\n]*)?(?:;[^@\n]*)?"
)
_CLAUSE: Final = re.compile(r"(~=|==|!=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?")
_HINT: Final = "see packaging.python.org, inline script metadata: dependencies is a list of requirements by name"


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """The packages a script needs, as written, and which Pythons it is for (empty: any)."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    def allows(self, version: tuple[int, int]) -> bool:
        """Whether a Python of this version fits `requires-python`, judged by major and minor number."""
        return all(_holds(clause, version) for clause in self.requires_python.split(",") if clause.strip())


def read_script_block(source: str) -> ScriptBlock:
    """The block of type `script` in a Python file; an empty one when there is none.

    Raises:
        NotExecutable: there are several, it is not TOML, or it asks for something other than packages by name.
    """
    found = [match for match in _BLOCK.finditer(source.replace("\r\n", "\n")) if match["type"] == "script"]
    if not found:
        return ScriptBlock()
    if len(found) > 1:
        raise NotExecutable("the script has several `# /// script` blocks", hint="keep one")
    import tomllib  # only for scripts with a block

    lines = found[0]["content"].splitlines()
    try:
        data = tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
    except tomllib.TOMLDecodeError as error:
        raise NotExecutable(f"the `# /// script` block is not TOML: {error}", hint=_HINT) from None
    wanted, python = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(wanted, list) or not all(isinstance(item, str) for item in wanted) or not isinstance(python, str):
        raise NotExecutable("the `# /// script` block does not list its dependencies as text", hint=_HINT)
    return ScriptBlock(tuple(_by_name(item.strip()) for item in wanted), python)


def _by_name(requirement: str) -> str:
    if not _REQUIREMENT.fullmatch(requirement):
        raise NotExecutable(
            f"the dependency {requirement!r} is not a package by name", hint="addresses, paths and options are not installed"
        )
    return requirement


def _holds(clause: str, version: tuple[int, int]) -> bool:
    match = _CLAUSE.fullmatch(clause.strip())
    if match is None:
        raise NotExecutable(f"requires-python {clause.strip()!r} cannot be understood", hint="for example >=3.11")
    numbers = tuple(int(part) for part in match[2].split("."))
    wanted, patch = (*numbers, 0)[:2], len(numbers) > 2
    same = version[0] == wanted[0] if match[3] and len(numbers) == 1 else version == wanted
    return {
        "==": same,
        "!=": not same or (patch and not match[3]),
        ">=": version >= wanted,
        ">": version > wanted or (version == wanted and patch),
        "<=": version <= wanted,
        "<": version < wanted or (version == wanted and patch),
        "~=": version[0] == wanted[0] and version >= wanted and (not patch or version == wanted),
    }[match[1]]
