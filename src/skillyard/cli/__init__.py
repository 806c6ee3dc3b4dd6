"""The interface for people at a terminal: the `skillyard` command.

`commands` holds one module per command, `table` says which there are. A command is imported when it is called for: `skillyard
--help` imports none of them, `skillyard list` only its own.
"""

try:
    from skillyard.cli.program import console, main
except KeyboardInterrupt:  # Ctrl-C before there is a command that could answer it
    raise SystemExit(130) from None

__all__ = ["console", "main"]
