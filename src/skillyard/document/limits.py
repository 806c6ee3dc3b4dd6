"""The limits that reading and checking share."""

from __future__ import annotations

from typing import Final

HEADER_LIMIT: Final = 64 * 1024
"""The closing fence must start within this many bytes of the file."""
DOCUMENT_LIMIT: Final = 1024 * 1024
"""A SKILL.md of more bytes is refused."""
DEPTH_LIMIT: Final = 8
"""How many lists and mappings may be inside one another, the front matter itself included."""
KEY_LIMIT: Final = 256
"""How many keys a front matter may have, nested ones included."""
NAME_LIMIT: Final = 64
"""Agent Skills specification, name: characters."""
DESCRIPTION_LIMIT: Final = 1024
"""Agent Skills specification, description: characters."""
COMPATIBILITY_LIMIT: Final = 500
"""Agent Skills specification, compatibility: characters."""
