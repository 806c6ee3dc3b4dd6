"""`python -m skillyard.mcp --root FOLDER`: an MCP server over standard input and output."""

from __future__ import annotations

import argparse
import sys

from skillyard.catalog import Catalog
from skillyard.errors import SkillyardError
from skillyard.mcp.stdio import serve_stdio

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Find the skills, then serve them until the client leaves; exit code 0, or 1 when they cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m skillyard.mcp", description="Serve skills to an MCP client over stdio.")
    parser.add_argument(
        "--root", action="append", metavar="FOLDER", help="a folder of skills; may repeat (default: the usual places)"
    )
    parser.add_argument("--language", choices=("en", "zh"), default="en", help="language of the tool descriptions")
    parser.add_argument("--no-run", action="store_true", help="do not offer the tool that runs scripts")
    parser.add_argument("--no-watch", action="store_true", help="do not watch the folders for changes")
    given = parser.parse_args(arguments)
    try:
        catalog = Catalog.discover(roots=given.root)
        serve_stdio(catalog, run_skills=not given.no_run, language=given.language, watch=not given.no_watch)
    except SkillyardError as error:
        print(f"{error.message}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)  # noqa: T201 - there is no other screen
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
