"""Reading a shell command strictly enough to decide on it.

A rule such as `Bash(git:*)` speaks of one program. It must not be fooled by `git status; rm -rf /`, by a substitution inside
quotes or by an assignment in front. What is not plainly one command with plain words is not matched by any such rule.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["simple_command"]

# One command: no operator, redirection, substitution, expansion of parameters with operators, or line break outside quotes.
_SIMPLE: Final = re.compile(
    r"""(?:
        '[^'\0]*'                                   # single quotes keep everything
      | "(?:[^"\\`$\0] | \\[^\0] | \$(?![({\[]))*"    # double quotes without ` $( ${ $[
      | \\[^\n\0]                                   # one escaped character, but no joined line
      | \$(?![({\['"])                              # $NAME, but no $( ${ $[ $' $"
      | [^'"\\$`;&|<>()\n\r\0]                        # any other character that is no operator
    )+""",
    re.VERBOSE,
)


def simple_command(command: str) -> list[str] | None:
    """The words of `command` when it is one simple command, as the shell would split it; None for anything else."""
    if not _SIMPLE.fullmatch(command):
        return None
    import shlex  # not at the top: most programs never decide on a command

    try:
        return shlex.split(command) or None
    except ValueError:
        return None
