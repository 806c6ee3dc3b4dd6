"""Write the description of the HTTP API as JSON: `write_openapi.py FILE`. The types of the page in `web/` are made from it.

Nothing of this machine is read: the application is made over an empty home.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def description() -> dict[str, Any]:
    """OpenAPI as a server answers it at `/openapi.json`."""
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    with tempfile.TemporaryDirectory() as empty:
        os.environ["SKILLYARD_HOME"] = empty
        os.environ.pop("SKILLYARD_DATABASE_URL", None)
        catalog = Catalog.discover(cwd=empty, home=empty)
        registry = Registry.of(catalog)
        try:
            return create_app(catalog, registry).openapi()
        finally:
            registry.close()
            catalog.records().close()


def main() -> None:
    """Write it where the first argument says."""
    target = Path(sys.argv[1])
    text = json.dumps(description(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
