"""Very many records, made by the database itself."""

from __future__ import annotations

from sqlalchemy import Connection, text

from skillyard.database import Database

__all__ = ["BODY", "analyse", "fill"]

BODY = "Do it step by step, and look at the result before you tell anybody. " * 20
_NUMBERS = {
    "postgresql": "SELECT generate_series(0, {most}) AS n",
    "sqlite": "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {most})"
    " SELECT n FROM numbers",
}
_SKILLS = """
    INSERT INTO skill_definitions (skill_id, name, description, trigger_keywords, tags, current_version, is_active,
                                   skill_md_content, skill_md_hash, created_at, updated_at)
    SELECT 'skill-' || n, 'skill ' || n, 'Does the thing number ' || n || ' well. Use when asked for thing ' || n || '.', '[]',
           '["a"]', '20260101-000000', n % 10 <> 0, :body, 'sha256:' || n, :moment, :moment FROM ({numbers}) AS made
"""
_VERSIONS = """
    INSERT INTO skill_versions (skill_id, version, status, source_type, origin, package_path, digest, package_digest,
                                size_bytes, skill_md_content, installed_at, created_at)
    SELECT 'skill-' || n, '20260101-000000', 'active', 'upload', '{{}}', '/x', 'sha256:' || n, 'sha256:' || n, 4096, :body,
           :moment, :moment FROM ({numbers}) AS made
"""
_LOGS = """
    INSERT INTO install_logs (id, operation_id, skill_id, version, operation, status, progress, steps, started_at)
    SELECT 'log_' || n, 'op_' || n, 'skill-' || n, '20260101-000000', 'install', 'success', 100, '[]', {moment}
    FROM ({numbers}) AS made
"""
_RUNS = """
    INSERT INTO runs (id, skill_id, skill_name, kind, state, status, parameters, context, cache_hit, owner, created_at,
                      finished_at, cache_key, expires_at, stdout, output)
    SELECT 'run_' || {hexadecimal} || '0123456789', 'installed:skill-' || (n % 1000), 'skill ' || (n % 1000), 'direct',
           CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, CASE WHEN n % 1000 = 0 THEN 'error' ELSE 'ok' END,
           '{{}}', '{{}}', {no}, '', {moment}, {moment}, 'key-' || n, {moment}, :body, '1' FROM ({numbers}) AS made
"""
_TRAIL = """
    INSERT INTO audit_events (id, at, actor, action, subject, outcome)
    SELECT 'evt_' || n, {moment}, 'key ' || (n % 50), 'install', 'skill-' || n, 'success' FROM ({numbers}) AS made
"""
_WORDS = {
    "postgresql": {
        "hexadecimal": "lpad(to_hex(n), 16, '0')",
        "moment": "timestamptz '2026-01-01 00:00:00+00' + n * interval '1 second'",
        "no": "false",
    },
    "sqlite": {
        "hexadecimal": "printf('%016x', n)",
        "moment": "strftime('%Y-%m-%d %H:%M:%f', 1767225600 + n, 'unixepoch') || '000'",
        "no": "0",
    },
}


def fill(database: Database, *, skills: int, runs: int) -> None:
    """So many skills, each with a version and a log, and so many runs and events of the trail."""
    with database.write() as connection:
        kind = connection.dialect.name
        moment = "2026-01-01 00:00:00+00" if kind == "postgresql" else "2026-01-01 00:00:00.000000"
        for statement, many in ((_SKILLS, skills), (_VERSIONS, skills), (_LOGS, skills), (_RUNS, runs), (_TRAIL, runs)):
            numbers = _NUMBERS[kind].format(most=many - 1)
            query = text(statement.format(numbers=numbers, **_WORDS[kind]))
            given = {"body": BODY, "moment": moment}
            connection.execute(query, {name: value for name, value in given.items() if f":{name}" in statement})
    analyse(database)


def analyse(database: Database) -> None:
    """Let the planner know how much there is."""
    with database.write() as connection:
        kind = connection.dialect.name
        _tell(connection, "ANALYZE")
    if kind == "postgresql":
        with database.write() as connection:  # what is visible to all, so that an index alone can answer
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.commit()
            raw.autocommit = True
            raw.execute("VACUUM ANALYZE skill_definitions")
            raw.execute("VACUUM ANALYZE runs")
            raw.autocommit = False


def _tell(connection: Connection, words: str) -> None:
    connection.execute(text(words))
