"""Other formats: manifests of three protocols, their conversions, and whether a package is one."""

from skillyard.interop.adoption import FORMS, Form, adopt_skills
from skillyard.interop.catalogs import CatalogEntry, read_anthropic_manifest, read_catalog
from skillyard.interop.clients import CLIENTS, Client, Loading, check_clients
from skillyard.interop.converting import FORMATS, Converted, PackageFormatName, convert
from skillyard.interop.inference import infer_category, infer_entry, infer_tags
from skillyard.interop.manifest import MANIFEST_FIELDS, Problem, manifest_problems, manifest_version, validate_manifest
from skillyard.interop.migration import migrate_skills, validate_skills
from skillyard.interop.originals import ORIGINALS_FILE
from skillyard.interop.protocols import (
    SHARED_FIELDS,
    convert_anthropic_to_codex,
    convert_anthropic_to_semibot,
    convert_codex_to_anthropic,
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
)
from skillyard.interop.report import MigrationReport, MigrationResult
from skillyard.interop.script import closing_line, report_lines
from skillyard.interop.structure import (
    Compatibility,
    PackageCheck,
    Structure,
    check_package,
    check_protocol_compatibility,
    validate_package_structure,
)

__all__ = [
    "CLIENTS",
    "FORMATS",
    "FORMS",
    "MANIFEST_FIELDS",
    "ORIGINALS_FILE",
    "SHARED_FIELDS",
    "CatalogEntry",
    "Client",
    "Compatibility",
    "Converted",
    "Form",
    "Loading",
    "MigrationReport",
    "MigrationResult",
    "PackageCheck",
    "PackageFormatName",
    "Problem",
    "Structure",
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
