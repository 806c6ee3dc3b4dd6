"""What a Python script says it needs in its `# /// script` block (PEP 723).

The block is located by one pass over the lines, and what it lists is parsed by `packaging`, the library that pip itself uses.
Only the canonical form of what was parsed is used further, never the text that a stranger wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import NotExecutable

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE_LIMIT: Final = 2 * 1024 * 1024
"""The bytes of a script in which its block is looked for."""
_BLOCK_LIMIT: Final = 32 * 1024  # characters of one block
_MOST: Final = 200  # requirements of one block
_LONGEST: Final = 1_000  # characters of one requirement
_MARK: Final = b"# /// script"
_OPENING: Final = re.compile(r"# /// [a-zA-Z0-9-]+")
# A canonical requirement is one line of these; neither an option nor a comment nor a variable of a requirements file fits in.
_CANONICAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\],<>=!~*+ ;()\"'-]*")
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HINT: Final = "see packaging.python.org, inline script metadata: dependencies is a list of requirements by name"


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """The packages a script needs, in the canonical form of their requirements, and which Pythons it is for (empty: any)."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    def allows(self, version: tuple[int, int, int]) -> bool:
        """Whether a Python of this version fits `requires-python`.

        Raises:
            NotExecutable: `requires-python` is not a list of version specifiers (PEP 440).
        """
        if not self.requires_python:
            return True
        from packaging.specifiers import InvalidSpecifier, SpecifierSet  # only for scripts with a block

        try:
            return SpecifierSet(self.requires_python).contains(".".join(map(str, version)), prereleases=True)
        except InvalidSpecifier:
            raise NotExecutable(
                f"requires-python {self.requires_python!r} cannot be understood", hint="for example >=3.11"
            ) from None


def read_script_block(source: bytes) -> ScriptBlock:
    """The block of type `script` in a Python file; an empty one when there is none.

    Raises:
        NotExecutable: there are several, one lies behind the first `SOURCE_LIMIT` bytes or is over 32 KiB, it is not TOML, or
            it requires something other than packages by name.
    """
    if _MARK not in source:
        return ScriptBlock()
    if source.find(_MARK, SOURCE_LIMIT - len(_MARK)) >= 0:
        raise NotExecutable(
            f"a `# /// script` block lies behind the first {SOURCE_LIMIT >> 20} MiB of the script",
            hint="put it at the beginning",
        )
    blocks = _blocks(source[:SOURCE_LIMIT].decode("utf-8", "replace"))
    if not blocks:
        return ScriptBlock()
    if len(blocks) > 1:
        raise NotExecutable("the script has several `# /// script` blocks", hint="keep one")
    if len(blocks[0]) > _BLOCK_LIMIT:
        raise NotExecutable(f"the `# /// script` block is over {_BLOCK_LIMIT // 1024} KiB", hint="name fewer packages")
    return _parsed(blocks[0])


def read_requirements(written: Sequence[str]) -> tuple[str, ...]:
    """Requirements that a caller names, in their canonical form.

    Raises:
        NotExecutable: one is something other than a package by name.
    """
    return tuple(_canonical(item.strip(" \t")) for item in written)


def _blocks(source: str) -> list[str]:
    """The TOML of every block of type `script`: from its first line to the last `# ///` of the same run of comment lines."""
    lines = source.replace("\r\n", "\n").split("\n")
    blocks: list[str] = []
    at = 0
    while at < len(lines):
        if not _OPENING.fullmatch(lines[at]):
            at += 1
            continue
        end, closing = at + 1, 0
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            if lines[end] == "# ///" and end > at + 1:
                closing = end
            end += 1
        if closing and lines[at] == "# /// script":
            blocks.append("\n".join(line[2:] for line in lines[at + 1 : closing]))
        at = closing + 1 if closing else end  # no block that begins further on in this run has an end either
    return blocks


def _parsed(text: str) -> ScriptBlock:
    import tomllib  # only for scripts with a block

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits is a plain ValueError
        raise NotExecutable(f"the `# /// script` block is not TOML: {error}", hint=_HINT) from None
    required, python = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(required, list) or not all(isinstance(item, str) for item in required) or not isinstance(python, str):
        raise NotExecutable("the `# /// script` block does not list its dependencies as text", hint=_HINT)
    if len(required) > _MOST:
        raise NotExecutable(f"the `# /// script` block names {len(required)} packages", hint=f"name at most {_MOST}")
    if len(python) > _LONGEST or _UNSAFE.search(python):
        raise NotExecutable(f"requires-python {python[:100]!r} cannot be understood", hint="for example >=3.11")
    return ScriptBlock(tuple(_canonical(item.strip(" \t")) for item in required), python.strip())


def _canonical(written: str) -> str:
    """The requirement as `packaging` writes it."""
    from packaging.requirements import InvalidRequirement, Requirement  # only for scripts with packages

    refused = NotExecutable(
        f"the dependency {written[:200]!r} is not a package by name", hint="addresses, paths and options are not installed"
    )
    if len(written) > _LONGEST or _UNSAFE.search(written):
        raise refused
    try:
        requirement = Requirement(written)
    except (InvalidRequirement, RecursionError):
        raise refused from None
    canonical = str(requirement)
    if requirement.url is not None or not _CANONICAL.fullmatch(canonical) or "--" in canonical:
        raise refused
    return canonical
