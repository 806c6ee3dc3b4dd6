"""Which models can be chosen here: the services that a key is set for, and what to set for the others."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

from skillyard.agent.models import VARIABLE

__all__ = ["KEY_VARIABLES", "Choices", "Provider", "choices"]

KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "ollama": ("OLLAMA_BASE_URL",),
}
"""What each service that needs no further package reads its key, or its address, from; the first is the usual one."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A service: its name before the colon, the variable it wants, whether that is set, and the models known of it."""

    name: str
    variable: str
    ready: bool
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """The model that is used when none is named, and the services."""

    usual: str | None
    providers: tuple[Provider, ...]


def choices() -> Choices:
    """What can be chosen in this process; no service is asked."""
    known = _known()
    providers = [
        Provider(name, variables[0], any(os.environ.get(variable) for variable in variables), known.get(name, ()))
        for name, variables in KEY_VARIABLES.items()
    ]
    return Choices(os.environ.get(VARIABLE, "").strip() or None, tuple(providers))


def _known() -> dict[str, tuple[str, ...]]:
    """The models that pydantic-ai knows by name, by their service."""
    from pydantic_ai.models import KnownModelName

    found: dict[str, list[str]] = defaultdict(list)
    for name in get_args(KnownModelName.__value__):
        provider, colon, _ = str(name).partition(":")
        if colon:
            found[provider].append(str(name))
    return {provider: tuple(sorted(names)) for provider, names in found.items()}
