"""What the records and the disk say at the end, against what clients were promised."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.asking import Acknowledged
from benchmarks.soak.site import Site

__all__ = ["Findings", "count", "settled"]

FINAL = ("succeeded", "failed", "cancelled", "interrupted")
_ENDS = "SELECT run_id, count(*) FROM soak_changes WHERE became = ANY(%s) GROUP BY run_id HAVING count(*) > 1"
_CHANGED_AFTER = "SELECT run_id, was, became FROM soak_changes WHERE was = ANY(%s)"
_BEGUN = "SELECT run_id, count(*) FROM soak_changes WHERE became = 'running' GROUP BY run_id HAVING count(*) > 1"
_KEYS = "SELECT left(id, 20), count(*) FROM runs GROUP BY 1 HAVING count(*) > 1"
_NOBODYS = "worker_id IS NULL OR worker_id NOT IN (SELECT id FROM procrastinate_workers)"  # a worker takes its own along
_MEMORIES = "SELECT run_id, count(*) FROM memories WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1"


@dataclass(slots=True)
class Findings:
    """`lost`: accepted and not ended, or acknowledged and not there; `doubled`: ended or begun twice; `left`: left over."""

    states: dict[str, int] = field(default_factory=dict)
    remembered: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


async def settled(site: Site) -> float:
    """Wait until every run has ended and nothing is on its way, as long as the plan allows; how many seconds that took."""
    begun = time.monotonic()
    while time.monotonic() < begun + site.plan.settle:
        if await asyncio.to_thread(_open, site) == 0:
            break
        await asyncio.sleep(0.3)
    return time.monotonic() - begun


def count(site: Site, reported: Acknowledged) -> Findings:
    """Hold what was acknowledged against the records and the disk; everything runs, and nobody asks for anything."""
    found = Findings()
    with _connected(site) as connection:
        rows = dict(connection.execute("SELECT id, state FROM runs").fetchall())
        found.states = {state: list(rows.values()).count(state) for state in sorted(set(rows.values()))}
        found.remembered = connection.execute("SELECT count(*) FROM memories").fetchone()[0]
        found.lost += [f"run {run} was accepted and is not there" for run in reported.runs.values() if run not in rows]
        found.lost += [f"run {run} is still {state}" for run, state in rows.items() if state not in FINAL]
        _count_doubles(connection, found)
        _count_left(connection, found)
    _count_installs(site, reported, found)
    return found


def _count_doubles(connection: Any, found: Findings) -> None:
    final = [list(FINAL)]
    found.doubled += [f"run {run} ended {times} times" for run, times in connection.execute(_ENDS, final)]
    after = connection.execute(_CHANGED_AFTER, final)
    found.doubled += [f"run {run} had {was} and then became {became}" for run, was, became in after]
    found.doubled += [f"run {run} was begun {times} times" for run, times in connection.execute(_BEGUN)]
    found.doubled += [f"{times} runs for one key: {key}" for key, times in connection.execute(_KEYS)]
    found.doubled += [f"run {run} is remembered {times} times" for run, times in connection.execute(_MEMORIES)]


def _count_left(connection: Any, found: Findings) -> None:
    for table in ("queued_runs", f"procrastinate_jobs WHERE {_NOBODYS}"):
        number = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        found.left += [f"{number} rows in {table}"] if number else []
    versions = connection.execute("SELECT count(*) FROM skill_versions WHERE status = 'installing'").fetchone()[0]
    logs = connection.execute("SELECT count(*) FROM install_logs WHERE status IN ('pending', 'in_progress')").fetchone()[0]
    found.left += [f"{versions} versions that are still installing"] if versions else []
    found.left += [f"{logs} logs of installs that are still open"] if logs else []


def _count_installs(site: Site, reported: Acknowledged, found: Findings) -> None:
    """Every skill serves the text it was installed with last, at every server, whole on the disk and in the store."""
    import httpx2

    from skillyard.packages import tree_digest

    with httpx2.Client(trust_env=False, timeout=30) as client:
        for name, text in sorted(reported.installs.items()):
            for server in site.servers():
                path = f"/api/v1/skill-definitions/{name}/files/SKILL.md"
                answer = client.get(f"http://127.0.0.1:{server.port}{path}")
                if answer.status_code != 200 or not any(one in answer.text for one in (text, *reported.perhaps[name])):
                    found.lost.append(f"{server.name} does not give {name} as it was installed: {answer.status_code}")
    with _connected(site) as connection:
        versions = connection.execute(
            "SELECT skill_id, version, digest, package_digest FROM skill_versions"
            " WHERE status = 'active' AND removed_at IS NULL"
        ).fetchall()
    stored = _stored(site)
    for skill, version, digest, package in versions:
        place = Path(site.data, "skills", skill, version)
        if not place.is_dir() or tree_digest(place) != digest:
            found.lost.append(f"{skill} {version} is not whole on the disk")
        if package not in stored:
            found.lost.append(f"the package of {skill} {version} is not in the store")


def _stored(site: Site) -> set[str]:
    """The digests in the store."""
    import os
    from unittest.mock import patch

    from skillyard.packages import open_store

    named = {name: value for name, value in site.environment("store", site.folder).items() if name.startswith("AWS_")}
    with patch.dict(os.environ, named):
        return set(open_store(site.store).list())


def _open(site: Site) -> int:
    """How much is still on its way; what cannot be asked counts."""
    import psycopg

    try:
        with _connected(site) as connection:
            query = "SELECT (SELECT count(*) FROM runs WHERE NOT state = ANY(%s)) + (SELECT count(*) FROM queued_runs)"
            number: int = connection.execute(query, [list(FINAL)]).fetchone()[0]
            return number
    except psycopg.Error:
        return 1


def _connected(site: Site) -> Any:
    import psycopg

    return psycopg.connect(site.database, autocommit=True, connect_timeout=5)
