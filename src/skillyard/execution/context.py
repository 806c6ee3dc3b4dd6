"""What a skill is told about its caller: everything but what sounds like a credential (row 000-40)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["without_credentials"]

_CREDENTIALS: Final = ("apikey", "password", "token", "secret")
_DEEPEST: Final = 20


def without_credentials(context: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The context without keys that contain `apikey`, `password`, `token` or `secret`, and a warning that names them.

    Case, hyphens and underscores make no difference; mappings inside are looked at too.
    """
    removed: list[str] = []
    kept = _kept(context, "", removed, _DEEPEST)
    warnings = (f"removed from the context, for they may be credentials: {', '.join(removed)}",) if removed else ()
    return kept, warnings


def _kept(context: Mapping[str, object], prefix: str, removed: list[str], depth: int) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, value in context.items():
        name = f"{prefix}{key}"
        plain = str(key).lower().replace("-", "").replace("_", "")
        if any(word in plain for word in _CREDENTIALS) or depth == 0:
            removed.append(name)
        else:
            kept[key] = _kept(value, f"{name}.", removed, depth - 1) if isinstance(value, Mapping) else value
    return kept
