"""Lets `python -m skillyard` do what `skillyard` does."""

from skillyard.cli import console

console()
