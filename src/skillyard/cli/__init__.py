"""The interface for people at a terminal: the `skillyard` command.

`commands` holds one module per command, `table` says which there are. A command is imported when it is called for: `skillyard
--help` imports none of them, `skillyard list` only its own.
"""

from skillyard.cli.program import console, main

__all__ = ["console", "main"]
