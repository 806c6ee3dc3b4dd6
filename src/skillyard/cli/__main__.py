"""Lets `python -m skillyard.cli` do what `skillyard` does."""

from skillyard.cli import console

console()
