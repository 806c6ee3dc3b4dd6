"""The media type of a file by its name, the same on every machine."""

from __future__ import annotations

import mimetypes
import posixpath
from typing import Final

__all__ = ["media_type"]

# The machine's own table calls .ts a video and does not know .md everywhere, so the types skills are made of are fixed here.
_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".py": "text/x-python",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".ts": "text/typescript",
    ".tsx": "text/typescript",
    ".sh": "text/x-shellscript",
    ".bash": "text/x-shellscript",
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".csv": "text/csv",
    ".html": "text/html",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".xml": "application/xml",
    ".xsd": "application/xml",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".ttf": "font/ttf",
}


def media_type(name: str, otherwise: str = "application/octet-stream") -> str:
    """The media type of the file `name`; `otherwise` when the name does not tell."""
    return _TYPES.get(posixpath.splitext(name)[1].lower()) or mimetypes.guess_type(name)[0] or otherwise
