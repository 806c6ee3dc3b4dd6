"""The version of Skillyard, in one place (semantic versioning)."""

__version__ = "0.1.0"
