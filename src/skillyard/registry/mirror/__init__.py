"""Mirrors: everything a registry holds, carried to another one, also where there is no network.

`copy_mirror` goes from registry or mirror to mirror, `import_mirror` from a mirror into a registry. A mirror is a folder, a
bucket, or what a web server gives out of either.
"""

from __future__ import annotations

from skillyard.registry.mirror.registry_mirror import RegistryMirror
from skillyard.registry.mirror.transfer import (
    MirrorCopyReport,
    MirrorImportPlan,
    MirrorImportReport,
    compare_mirrors,
    copy_mirror,
    import_mirror,
    plan_import,
)
from skillyard.registry.mirror_index import INDEX_FILE, MirroredSkill, MirroredVersion, MirrorIndex
from skillyard.registry.mirror_locations import (
    MirrorFetcher,
    MirrorSource,
    MirrorTarget,
    StoredMirror,
    WebMirror,
    open_mirror,
    open_mirror_target,
)

__all__ = [
    "INDEX_FILE",
    "MirrorCopyReport",
    "MirrorFetcher",
    "MirrorImportPlan",
    "MirrorImportReport",
    "MirrorIndex",
    "MirrorSource",
    "MirrorTarget",
    "MirroredSkill",
    "MirroredVersion",
    "RegistryMirror",
    "StoredMirror",
    "WebMirror",
    "compare_mirrors",
    "copy_mirror",
    "import_mirror",
    "open_mirror",
    "open_mirror_target",
    "plan_import",
]
