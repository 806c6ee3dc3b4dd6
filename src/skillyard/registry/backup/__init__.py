"""Backups: everything a server keeps, in one file, made while it serves, and brought back into either kind of database.

`write_backup` makes the file, `check_backup` proves it, `restore_backup` brings it back.
"""

from __future__ import annotations

from skillyard.registry.backup.archive import Manifest, check_backup
from skillyard.registry.backup.places import Place
from skillyard.registry.backup.restoring import Restored, restore_backup
from skillyard.registry.backup.writing import BackupReport, write_backup

__all__ = ["BackupReport", "Manifest", "Place", "Restored", "check_backup", "restore_backup", "write_backup"]
