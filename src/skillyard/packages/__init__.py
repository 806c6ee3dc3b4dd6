"""Packages: archives and their rules, one digest for a tree, how a source is written, where packages are kept.

`pack` and `extract` go from folder to archive and back; `tree_digest` names a folder's exact content; `resolve` reads
where a skill comes from; a `Store` keeps archives by digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.packages.addresses import shown_address, without_secrets
    from skillyard.packages.copying import copy_tree
    from skillyard.packages.differing import Difference, FileDifference, compare_trees
    from skillyard.packages.digest import tree_digest
    from skillyard.packages.extracting import ArchiveFormat, Extracted, extract, sniff
    from skillyard.packages.finding import FoundSkill, choose_skills, find_skills
    from skillyard.packages.limits import Limits
    from skillyard.packages.moving import CopiedPackages, copy_packages
    from skillyard.packages.packing import IGNORED, Package, PackageFormat, pack
    from skillyard.packages.s3_store import S3Store
    from skillyard.packages.signing import (
        SIGNATURE_FILE,
        Signature,
        SigningKey,
        is_signer,
        read_signature,
        sign_tree,
        verify_tree,
    )
    from skillyard.packages.source import Origin, OriginShape, Source, SourceKind, resolve
    from skillyard.packages.store import LocalStore, Store, digest_of, open_store

__all__ = [
    "IGNORED",
    "SIGNATURE_FILE",
    "ArchiveFormat",
    "CopiedPackages",
    "Difference",
    "Extracted",
    "FileDifference",
    "FoundSkill",
    "Limits",
    "LocalStore",
    "Origin",
    "OriginShape",
    "Package",
    "PackageFormat",
    "S3Store",
    "Signature",
    "SigningKey",
    "Source",
    "SourceKind",
    "Store",
    "choose_skills",
    "compare_trees",
    "copy_packages",
    "copy_tree",
    "digest_of",
    "extract",
    "find_skills",
    "is_signer",
    "open_store",
    "pack",
    "read_signature",
    "resolve",
    "shown_address",
    "sign_tree",
    "sniff",
    "tree_digest",
    "verify_tree",
    "without_secrets",
]

_MODULES = {
    "addresses": ("shown_address", "without_secrets"),
    "copying": ("copy_tree",),
    "differing": ("Difference", "FileDifference", "compare_trees"),
    "digest": ("tree_digest",),
    "extracting": ("ArchiveFormat", "Extracted", "extract", "sniff"),
    "finding": ("FoundSkill", "choose_skills", "find_skills"),
    "limits": ("Limits",),
    "moving": ("CopiedPackages", "copy_packages"),
    "packing": ("IGNORED", "Package", "PackageFormat", "pack"),
    "signing": ("SIGNATURE_FILE", "Signature", "SigningKey", "is_signer", "read_signature", "sign_tree", "verify_tree"),
    "source": ("Origin", "OriginShape", "Source", "SourceKind", "resolve"),
    "s3_store": ("S3Store",),
    "store": ("LocalStore", "Store", "digest_of", "open_store"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import what is named when it is named: most callers use a part."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
