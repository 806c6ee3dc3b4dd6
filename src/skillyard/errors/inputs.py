"""A value, a file of settings or a rule that the caller gave and that cannot be used."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError


class InvalidInput(SkillyardError):
    """A value the caller gave cannot be used."""

    code = "invalid_input"
    status = 400


class InvalidConfiguration(InvalidInput):
    """A settings file cannot be read or says something that cannot be meant."""

    code = "invalid_configuration"


class InvalidManifest(InvalidInput):
    """A package's manifest breaks a rule; `details["problems"]` lists every one."""

    code = "invalid_manifest"
    status = 422


class InvalidPolicy(InvalidInput):
    """A sandbox policy is contradictory, unknown or out of range."""

    code = "invalid_policy"
    status = 422


class UnreachableRule(InvalidInput):
    """A permission rule can never apply because an earlier one always matches first."""

    code = "unreachable_rule"
