"""Mirrors: everything a registry holds, carried to another one, also where there is no network.

`copy_mirror` goes from registry or mirror to mirror, `import_mirror` from a mirror into a registry. A mirror is a folder, a
bucket, or what a web server gives out of either.
"""

from __future__ import annotations

from skillyard.registry.mirror.copying import Copied, compare_mirrors, copy_mirror
from skillyard.registry.mirror.fetching import MirrorFetcher
from skillyard.registry.mirror.importing import Imported, Plan, import_mirror, plan_import
from skillyard.registry.mirror.index import INDEX_FILE, MirroredSkill, MirroredVersion, MirrorIndex
from skillyard.registry.mirror.places import MirrorPlace, MirrorTarget, StoredMirror, WebMirror, open_place, open_target
from skillyard.registry.mirror.registry_place import RegistryPlace

__all__ = [
    "INDEX_FILE",
    "Copied",
    "Imported",
    "MirrorFetcher",
    "MirrorIndex",
    "MirrorPlace",
    "MirrorTarget",
    "MirroredSkill",
    "MirroredVersion",
    "Plan",
    "RegistryPlace",
    "StoredMirror",
    "WebMirror",
    "compare_mirrors",
    "copy_mirror",
    "import_mirror",
    "open_place",
    "open_target",
    "plan_import",
]
