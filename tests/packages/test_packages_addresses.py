"""Addresses lose what may be a secret before they are shown or kept, and nothing else."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidConfiguration, StoreFailed
from skillyard.packages import Origin, open_store, shown_address, without_secrets

NAMES = [
    "token",
    "access_token",
    "api_key",
    "apikey",
    "key",
    "sig",
    "X-Amz-Signature",
    "X-Amz-Credential",
    "password",
    "AUTH",
    "jwt",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_called_a_secret_is_not_kept(name: str) -> None:
    assert without_secrets(f"https://h.example/a?x=1&{name}=abc&y=2") == "https://h.example/a?x=1&y=2"
    assert Origin("address", f"https://h.example/a.zip?{name}=abc").address == "https://h.example/a.zip"


@pytest.mark.parametrize(
    "query", ["id=5", "ref=main", "sha=0123456789abcdef0123456789abcdef01234567", "monkey=1", "path=a/b.zip", "raw"]
)
def test_what_is_no_secret_stays(query: str) -> None:
    address = f"https://h.example/a?{query}"
    assert without_secrets(address) == address


def test_what_looks_like_a_secret_is_not_kept() -> None:
    assert without_secrets("https://h.example/a?q=ghp0123456789abcdefghijklmnopqrst") == "https://h.example/a"
    assert without_secrets("https://h.example/a?ghp0123456789abcdefghijklmnopqrst") == "https://h.example/a"


@given(st.dictionaries(st.sampled_from(["id", "v", "path", "token"]), st.text(max_size=12)), st.sampled_from(["", "#x"]))
def test_the_rest_of_an_address_is_never_touched(query: dict[str, str], end: str) -> None:
    address = f"https://h.example/a%20b/c.zip?{urlencode(query)}{end}"
    kept = urlsplit(without_secrets(address))
    assert (kept.scheme, kept.netloc, kept.path) == ("https", "h.example", "/a%20b/c.zip")
    if not end:
        rest = {name: value for name, value in query.items() if name != "token"}
        assert dict(parse_qsl(kept.query, keep_blank_values=True)) == rest
    shown = shown_address(address)
    assert shown == "https://h.example/a%20b/c.zip"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:word@h.example/a?b#c", "https://h.example/a"),
        ("ssh://git@h.example/a.git", "ssh://git@h.example/a.git"),
        ("ssh://git:word@h.example/a.git", "ssh://h.example/a.git"),
        ("/home/me/what?is:this", "/home/me/what?is:this"),
        ("https://h.example", "https://h.example"),
    ],
)
def test_an_address_is_shown_without_user_and_query(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_a_store_never_shows_the_secrets_in_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for address in ("s3://key:hush@bucket/p?secret=hush", "gs://key:hush@bucket"):
        with pytest.raises((InvalidConfiguration, StoreFailed)) as refused:
            open_store(address).read_file("x", 100)
        assert "hush" not in refused.value.message
