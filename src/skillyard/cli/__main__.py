"""Lets `python -m skillyard.cli` do what `skillyard` does."""

import sys

from skillyard.cli import main

sys.exit(main())
