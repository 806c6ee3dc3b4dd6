"""Skillyard: find agent skills, check them, tell any model about them, run their scripts in a sandbox."""

from skillyard._version import __version__

__all__ = ["__version__"]
