"""Lets `python -m skillyard` do what `skillyard` does."""

from skillyard.cli import console

if __name__ == "__main__":  # not in the other processes of a server
    console()
