"""Packages: archives and their rules, one digest for a tree, how a source is written, where packages are kept.

`pack` and `extract` go from folder to archive and back; `tree_digest` names a folder's exact content; `resolve` reads
where a skill comes from; a `Store` keeps archives by digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.packages.archive_entries import PackageLimits
    from skillyard.packages.archive_writer import (
        IGNORED,
        Package,
        PackageFormat,
        copy_tree,
        is_never_packed,
        pack,
        package_refusals,
    )
    from skillyard.packages.digest import (
        SIGNATURE_FILE,
        Signature,
        SigningKey,
        TreeEntry,
        digest_of,
        is_signer,
        read_signature,
        sign_tree,
        tree_digest,
        tree_entries,
        tree_size,
        verify_tree,
    )
    from skillyard.packages.extraction import ArchiveFormat, Extracted, FoundSkill, choose_skills, extract, find_skills, sniff
    from skillyard.packages.package_source import Origin, Source, SourceKind, resolve, shown_address, without_secrets
    from skillyard.packages.package_store import LocalStore, PackageCopyReport, S3Store, Store, copy_packages, open_store
    from skillyard.packages.tree_diff import FileDifference, FolderDifference, compare_trees

__all__ = [
    "IGNORED",
    "SIGNATURE_FILE",
    "ArchiveFormat",
    "Extracted",
    "FileDifference",
    "FolderDifference",
    "FoundSkill",
    "LocalStore",
    "Origin",
    "Package",
    "PackageCopyReport",
    "PackageFormat",
    "PackageLimits",
    "S3Store",
    "Signature",
    "SigningKey",
    "Source",
    "SourceKind",
    "Store",
    "TreeEntry",
    "choose_skills",
    "compare_trees",
    "copy_packages",
    "copy_tree",
    "digest_of",
    "extract",
    "find_skills",
    "is_never_packed",
    "is_signer",
    "open_store",
    "pack",
    "package_refusals",
    "read_signature",
    "resolve",
    "shown_address",
    "sign_tree",
    "sniff",
    "tree_digest",
    "tree_entries",
    "tree_size",
    "verify_tree",
    "without_secrets",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "archive_writer": ("IGNORED", "Package", "PackageFormat", "copy_tree", "is_never_packed", "pack", "package_refusals"),
        "digest": (
            "SIGNATURE_FILE",
            "Signature",
            "SigningKey",
            "TreeEntry",
            "digest_of",
            "is_signer",
            "read_signature",
            "sign_tree",
            "tree_digest",
            "tree_entries",
            "tree_size",
            "verify_tree",
        ),
        "archive_entries": ("PackageLimits",),
        "extraction": ("ArchiveFormat", "Extracted", "FoundSkill", "choose_skills", "extract", "find_skills", "sniff"),
        "package_source": ("Origin", "Source", "SourceKind", "resolve", "shown_address", "without_secrets"),
        "package_store": ("LocalStore", "PackageCopyReport", "S3Store", "Store", "copy_packages", "open_store"),
        "tree_diff": ("FileDifference", "FolderDifference", "compare_trees"),
    },
)
