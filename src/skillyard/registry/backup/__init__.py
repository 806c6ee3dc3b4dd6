"""Backups: everything a server keeps, in one file, made while it serves, and brought back into either kind of database.

`write_backup` makes the file, `check_backup` proves it, `restore_backup` brings it back.
"""

from __future__ import annotations

from skillyard.registry.backup.archive import BackupHome, BackupManifest, check_backup
from skillyard.registry.backup.creation import BackupReport, write_backup
from skillyard.registry.backup.restoration import RestoreReport, restore_backup

__all__ = ["BackupHome", "BackupManifest", "BackupReport", "RestoreReport", "check_backup", "restore_backup", "write_backup"]
