"""Questions to the person at the terminal: asked on standard error, so that an answer on standard output stays clean."""

from __future__ import annotations

import sys

from skillyard.text import single_line

__all__ = ["ask", "ask_as_written", "confirm"]


def ask(question: str) -> str:
    """The person's answer without surrounding space, in lower case; empty when the input ended."""
    sys.stderr.write(single_line(question) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()


def confirm(question: str) -> bool:
    """Whether the person said yes; anything else, and silence, is no."""
    return ask(f"{question} [y/N]") in ("y", "yes")


def ask_as_written(prompt: str) -> str | None:
    """What the person types, as it is; None when the input ended. Arrow keys work at a terminal."""
    if sys.stdin.isatty():
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 # only to be loaded: `input` uses it
        try:
            return input(f"{prompt} ")
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
