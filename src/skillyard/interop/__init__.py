"""Other formats: manifests of three protocols, their conversions, and whether a package is one."""

from skillyard.interop.adoption import FOREIGN_FORMATS, ForeignFormat, adopt_skills
from skillyard.interop.client_compatibility import CLIENTS, ClientCompatibility, ClientName, check_clients
from skillyard.interop.conversion import FORMATS, ConversionResult, PackageFormatName, convert
from skillyard.interop.manifest import (
    MANIFEST_FIELDS,
    CatalogEntry,
    ManifestProblem,
    manifest_problems,
    manifest_version,
    read_anthropic_manifest,
    read_catalog,
    validate_manifest,
)
from skillyard.interop.manifest_conversion import (
    SHARED_FIELDS,
    convert_anthropic_to_codex,
    convert_anthropic_to_semibot,
    convert_codex_to_anthropic,
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
    infer_category,
    infer_entry,
    infer_tags,
)
from skillyard.interop.migration import migrate_skills, validate_skills
from skillyard.interop.migration_report import MigrationReport, MigrationResult
from skillyard.interop.originals import ORIGINALS_FILE
from skillyard.interop.package_checks import (
    PackageCheck,
    PackageStructure,
    ProtocolCompatibility,
    check_package,
    check_protocol_compatibility,
    closing_line,
    report_lines,
    validate_package_structure,
)

__all__ = [
    "CLIENTS",
    "FOREIGN_FORMATS",
    "FORMATS",
    "MANIFEST_FIELDS",
    "ORIGINALS_FILE",
    "SHARED_FIELDS",
    "CatalogEntry",
    "ClientCompatibility",
    "ClientName",
    "ConversionResult",
    "ForeignFormat",
    "ManifestProblem",
    "MigrationReport",
    "MigrationResult",
    "PackageCheck",
    "PackageFormatName",
    "PackageStructure",
    "ProtocolCompatibility",
    "adopt_skills",
    "check_clients",
    "check_package",
    "check_protocol_compatibility",
    "closing_line",
    "convert",
    "convert_anthropic_to_codex",
    "convert_anthropic_to_semibot",
    "convert_codex_to_anthropic",
    "convert_codex_to_semibot",
    "convert_semibot_to_anthropic",
    "convert_semibot_to_codex",
    "infer_category",
    "infer_entry",
    "infer_tags",
    "manifest_problems",
    "manifest_version",
    "migrate_skills",
    "read_anthropic_manifest",
    "read_catalog",
    "report_lines",
    "validate_manifest",
    "validate_package_structure",
    "validate_skills",
]
