"""What is asked of the records again and again, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skillyard.access import AuditLog, Keys
from skillyard.database import Database
from skillyard.engine import RunFilter
from skillyard.engine.journal import Journal
from skillyard.insights import Insights
from skillyard.registry.record_queries import RecordReader, page_of_skills

__all__ = ["HOT", "READING_ALL"]

HOT: Mapping[str, Callable[[Database], object]] = {
    "a skill by its id": lambda database: RecordReader(database).find("skill-777"),
    "a skill by its name": lambda database: RecordReader(database).find("skill 777"),
    "skills that another requires": lambda database: RecordReader(database).named(["skill-1", "skill 2", "nothing"]),
    "the versions of a skill": lambda database: RecordReader(database).versions("skill-777"),
    "the names of its versions": lambda database: RecordReader(database).version_names("skill-777"),
    "the package of a content": lambda database: RecordReader(database).package_of("skill-777", "sha256:777"),
    "what was done to a skill": lambda database: RecordReader(database).history("skill-777"),
    "what was done last": lambda database: RecordReader(database).history(limit=50),
    "the logs of an operation": lambda database: RecordReader(database).history(operation_id="op_777", limit=1000),
    "skills with a word in them": lambda database: page_of_skills(database, text="number 4242 "),
    "skills with part of a word": lambda database: page_of_skills(database, text="KILL-424", active=True),
    "skills with a word that none has": lambda database: page_of_skills(database, text="nowhere"),
    "a run": lambda database: Journal(database).get("run_00000000000003090123456789"),
    "a run by how its id begins": lambda database: Journal(database).beginning_with("run_0000000000000309"),
    "the newest runs": lambda database: Journal(database).list(),
    "runs far from the newest": lambda database: Journal(database).list(limit=50, offset=3000),
    "the newest runs of a skill": lambda database: Journal(database).list(RunFilter(skill="installed:skill-77")),
    "the newest runs that failed": lambda database: Journal(database).list(RunFilter(states=["failed"])),
    "how many runs wait or work": lambda database: Journal(database).count(RunFilter(states=["queued", "running"])),
    "how many runs failed": lambda database: Journal(database).count(RunFilter(states=["failed"])),
    "how many runs ended badly": lambda database: Journal(database).count(RunFilter(statuses=["error"])),
    "how many runs a skill had": lambda database: Journal(database).count(RunFilter(skill="installed:skill-77")),
    "how many runs somebody asked for": lambda database: Journal(database).count(RunFilter(caller="person-7")),
    "the newest runs that somebody asked for": lambda database: Journal(database).list(RunFilter(caller="person-7")),
    "the newest runs of an agent": lambda database: Journal(database).list(RunFilter(agent="clerk")),
    "the newest runs through an interface": lambda database: Journal(database).list(RunFilter(interface="mcp")),
    "what became of skills": lambda database: Insights(database).report("skill"),
    "what became of a skill, by caller": lambda database: Insights(database).report("caller", skill="user:pdf"),
    "a kept result": lambda database: Journal(database).cached("key-777"),
    "what a caller did last": lambda database: AuditLog(lambda: database).events(actor="key 7"),
    "the keys of a server": lambda database: Keys(lambda: database).all(),
}
READING_ALL: Mapping[str, Callable[[Database], object]] = {
    "the first page of skills, and how many": lambda database: page_of_skills(database, active=True),
    "page 1,000 of skills": lambda database: page_of_skills(database, active=True, offset=20_000),
    "skills with two letters in them": lambda database: page_of_skills(database, text="zz"),
    "skills with a word that all have": lambda database: page_of_skills(database, text="number"),
    "what was done to a subject": lambda database: AuditLog(lambda: database).events(subject="skill-777"),
    "how many runs there are": lambda database: Journal(database).count(),
}
"""What has to count or to look at every row: its cost grows with the records, and docs/scaling.md says from when that hurts."""
