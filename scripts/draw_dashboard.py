"""Write deploy/grafana/skillyard.json: `python scripts/draw_dashboard.py`; easier kept as a list of questions."""

from __future__ import annotations

import json
from pathlib import Path

TARGET = Path(__file__).parents[1] / "deploy/grafana/skillyard.json"
_SECONDS = "skillyard_http_request_duration_seconds_bucket"
# title, unit, what is asked, and the words for each line
PANELS = (
    ("Servers that answer", "short", 'sum(up{job="skillyard"})', "servers"),
    ("Requests a second", "reqps", "sum by (status) (rate(skillyard_http_requests_total[5m]))", "{{status}}"),
    (
        "Requests that fail",
        "percentunit",
        'sum(rate(skillyard_http_requests_total{status=~"5.."}[5m])) / sum(rate(skillyard_http_requests_total[5m]))',
        "share",
    ),
    ("Half of all requests take at most", "s", f"histogram_quantile(0.5, sum by (le) (rate({_SECONDS}[5m])))", "median"),
    ("99 of 100 take at most", "s", f"histogram_quantile(0.99, sum by (le) (rate({_SECONDS}[5m])))", "99 %"),
    (
        "Slowest routes, 99 of 100",
        "s",
        f"topk(10, histogram_quantile(0.99, sum by (le, route) (rate({_SECONDS}[15m]))))",
        "{{route}}",
    ),
    ("Runs a minute", "short", "60 * sum by (status) (rate(skillyard_runs_total[5m]))", "{{status}}"),
    (
        "Sandboxes started a minute",
        "short",
        "60 * sum by (isolation) (rate(skillyard_sandbox_starts_total[5m]))",
        "{{isolation}}",
    ),
    (
        "Installs, updates, rollbacks an hour",
        "short",
        "3600 * sum by (operation, outcome) (rate(skillyard_skill_operations_total[30m]))",
        "{{operation}} {{outcome}}",
    ),
    ("Open streams", "short", "sum(skillyard_http_streams_open)", "streams"),
    (
        "Calls of helper processes a minute",
        "short",
        "60 * sum by (outcome) (rate(skillyard_helper_calls_total[5m]))",
        "{{outcome}}",
    ),
)


def dashboard() -> dict[str, object]:
    """The whole dashboard, two panels a row."""
    return {
        "uid": "skillyard",
        "title": "Skillyard",
        "tags": ["skillyard"],
        "schemaVersion": 41,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]},
        "panels": [_panel(number, *panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, title: str, unit: str, asked: str, words: str) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": asked, "legendFormat": words}],
    }


def main() -> None:
    """Write it."""
    TARGET.write_text(json.dumps(dashboard(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
