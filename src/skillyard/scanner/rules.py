"""Every rule of the scanner by its id."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from skillyard.scanner.credentials import CREDENTIAL_RULES
from skillyard.scanner.dangerous_commands import CALL_RULES, PERSISTENCE_RULES, RESOURCE_RULES
from skillyard.scanner.finding import ScanRule
from skillyard.scanner.hidden import HIDDEN_RULES
from skillyard.scanner.injection import INJECTION_RULES
from skillyard.scanner.network import DOWNLOAD_RULES, FLOW_RULES, NETWORK_RULES
from skillyard.scanner.obfuscation import OBFUSCATION_RULES
from skillyard.scanner.permissions import PERMISSION_RULES

RULES: Final[Mapping[str, ScanRule]] = MappingProxyType(
    {
        rule.id: rule
        for group in (
            INJECTION_RULES,
            HIDDEN_RULES,
            CREDENTIAL_RULES,
            FLOW_RULES,
            DOWNLOAD_RULES,
            PERSISTENCE_RULES,
            OBFUSCATION_RULES,
            CALL_RULES,
            NETWORK_RULES,
            PERMISSION_RULES,
            RESOURCE_RULES,
        )
        for rule in group
    }
)
"""By subject, in the order in which they are told."""
