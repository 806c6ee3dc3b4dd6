"""Secrets that were given to a run do not come back out of it."""

from __future__ import annotations

import base64
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.sandbox import Policy
from skillyard.sandbox.policy import REDACTED, base_environment, redact


@given(st.text(min_size=4, max_size=60), st.binary(max_size=40), st.binary(max_size=40))
def test_a_secret_is_removed_wherever_it_stands(secret: str, before: bytes, after: bytes) -> None:
    raw = secret.encode("utf-8", "surrogateescape") if not any("\ud800" <= c <= "\udfff" for c in secret) else b""
    if raw and raw not in REDACTED:
        assert raw not in redact(before + raw + after, [secret])


@pytest.mark.abuse("E4")
def test_a_secret_is_removed_in_the_forms_programs_print_it() -> None:
    secret = 'p@ss/w"ord+42ü'
    raw = secret.encode()
    forms = [
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        raw.hex(),
    ]
    cleaned = redact("\n".join(forms).encode(), [secret]).decode()
    assert not any(form.strip('"') in cleaned for form in forms)


@pytest.mark.abuse("E4")
def test_a_secret_inside_a_longer_base64_text_is_found_at_every_offset() -> None:
    secret = "correct-horse-battery"
    for offset in range(3):
        encoded = base64.b64encode(b"x" * offset + secret.encode() + b"tail")
        assert REDACTED in redact(encoded, [secret])


def test_values_are_secret_when_named_so_or_when_the_operator_says() -> None:
    policy = Policy(environment={"API_KEY": "k-123456", "UNIT": "celsius", "CITY": "Paris-Nord"}, secrets=frozenset({"CITY"}))
    assert set(policy.secret_values) == {"k-123456", "Paris-Nord"}


def test_the_base_environment_holds_nothing_of_the_host() -> None:
    assert set(base_environment(scratch="/tmp")) == {"PATH", "HOME", "TMPDIR", "LANG", "SKILL_RESULT_FD", "SKILL_PROTOCOL"}
