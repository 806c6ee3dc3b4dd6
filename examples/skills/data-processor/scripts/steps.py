"""The three steps; the rules are in references/cleaning-rules.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

MISSING = frozenset({"", "-", "n/a", "null", "none"})
NUMBER = re.compile(r"-?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?")


def validate(data: list) -> list[dict]:
    return [record for record in data if isinstance(record, dict) and record]


def clean(records: list[dict]) -> list[dict]:
    kept, seen = [], set()
    for record in records:
        cleaned = {field: clean_value(value) for field, value in record.items()}
        fingerprint = json.dumps(cleaned, sort_keys=True)
        if fingerprint not in seen and any(value is not None for value in cleaned.values()):
            seen.add(fingerprint)
            kept.append(cleaned)
    return kept


def clean_value(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in MISSING:
        return None
    if NUMBER.fullmatch(text):
        digits = text.replace(",", "")
        return float(digits) if "." in digits else int(digits)
    return text


def analyze(records: list[dict], group_by: str | None = None) -> dict:
    names = list(dict.fromkeys(field for record in records for field in record))
    result: dict[str, Any] = {"count": len(records), "fields": {name: describe(records, name) for name in names}}
    if group_by is not None:
        counts = Counter(as_text(record.get(group_by)) for record in records)
        result["groups"] = dict(counts.most_common())
    return result


def describe(records: list[dict], name: str) -> dict:
    values = [record[name] for record in records if record.get(name) is not None]
    shape: dict[str, Any] = {"filled": len(values), "missing": len(records) - len(values)}
    if values and all(isinstance(value, bool) for value in values):
        return shape | {"kind": "boolean", "true": sum(values)}
    if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        mean = round(sum(values) / len(values), 6)
        tidy = int(mean) if mean == int(mean) else mean
        return shape | {"kind": "number", "minimum": min(values), "maximum": max(values), "mean": tidy}
    return shape | {"kind": "text", "distinct": len({as_text(value) for value in values})}


def as_text(value: Any) -> str:
    if value is None:
        return "(missing)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
