"""Which hosts can be on a list, in which one form they are compared, and which list covers which."""

from __future__ import annotations

import contextlib
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidPolicy
from skillyard.network.hosts import MalformedHost, canonical_host, covers, host_problem, permits, read_rules
from skillyard.sandbox import Policy, effective_policy

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(
    lambda label: label[2:4] != "--" and not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", label)
)
names = st.lists(labels, min_size=3, max_size=4).map(".".join)
entries = st.builds(
    lambda scheme, star, name, port: f"{scheme}{star}{name}{port}",
    st.sampled_from(["", "http://", "https://"]),
    st.sampled_from(["", "*."]),
    names,
    st.sampled_from(["", ":80", ":443", ":8080"]),
)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("API.Example.COM", "api.example.com"), ("api.example.com.", "api.example.com"), ("bücher.example",
        "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"), ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"), ("10.0.0.1", "10.0.0.1"), ("[::1]", "[::1]"),
        ("[2001:DB8:0:0::1]", "[2001:db8::1]"), ("a_b.example", "a_b.example"), ("r3---sn-x.example", "r3---sn-x.example"),
    ],
)  # fmt: skip
@pytest.mark.abuse("D10")
def test_one_host_has_one_form(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..b", ".a.b", "a.b..", "-a.b", "a-.b", "a b", "a\0.b", "a\r\nb", "a%00.b", "a@b", "a#.b",
        "a/b", "a\\b", "a?b",
        "xn--", "xn--a.b", "xn--\u00fc.b", "xn--zzzzzzzz99.b", "example\uff0ecom", "example\u3002com", "a\u200b.b", "a\u00ad.b",
        "_.b", "__", "1.2.3", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.01", "1.2.3.4.5", "a.1",
        "a.0x1", "256.1.1.1", "\uff11\uff12\uff17.0.0.1", "[::]x", "[::1", "[::1%eth0]", "[1.2.3.4]", "::1", "a" * 64 + ".b",
        ".".join(["a" * 60] * 5), "a*.b", "*.b", "*",
    ],
)  # fmt: skip
@pytest.mark.abuse("D10", "D12")
def test_what_two_programs_could_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(MalformedHost):
        canonical_host(text)


@given(st.text(max_size=30) | st.text(alphabet="0123456789abcdefx.", max_size=20) | names)
def test_the_one_form_is_stable_plain_and_never_a_disguised_address(text: str) -> None:
    try:
        host = canonical_host(text)
    except MalformedHost:
        return
    assert canonical_host(host) == host == host.lower()
    assert re.fullmatch(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]", host)
    with contextlib.suppress(OSError):
        assert socket.inet_ntoa(socket.inet_aton(host)) == host  # no resolver reads another address


@given(names)
@pytest.mark.abuse("D10")
def test_case_and_a_dot_at_the_end_are_the_only_other_spellings(name: str) -> None:
    assert canonical_host(name.upper() + ".") == name


@given(entries, entries, st.sampled_from(["http", "https"]), st.sampled_from([80, 443, 8080]), st.sampled_from(["", "x."]))
def test_a_list_that_covers_an_entry_permits_all_it_permits(rule: str, entry: str, scheme, port: int, below: str) -> None:
    host = below + re.sub(r"^(https?://)?(\*\.)?|:\d+$", "", entry)
    for one in (rule, entry):
        if covers([one], entry) and permits(read_rules([entry]), scheme, host, port):
            assert permits(read_rules([one]), scheme, host, port)
    assert covers([entry], entry)


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("a.test", {("https", 443)}), ("https://a.test", {("https", 443)}), ("http://a.test", {("http", 80)}),
        ("HTTPS://A.test", {("https", 443)}), ("a.test:8080", {("https", 8080), ("http", 8080)}),
        ("http://a.test:8080", {("http", 8080)}), ("https://a.test:8443", {("https", 8443)}),
    ],
)  # fmt: skip
def test_an_entry_allows_its_port_and_its_scheme(entry: str, allowed: set[tuple[str, int]]) -> None:
    rules = read_rules([entry])
    every = [(scheme, port) for scheme in ("http", "https") for port in (22, 80, 443, 8080, 8443)]
    assert {(scheme, port) for scheme, port in every if permits(rules, scheme, "a.test", port)} == allowed


@pytest.mark.row("000-20")
@pytest.mark.abuse("D11")
def test_a_wildcard_covers_what_is_below_a_domain_and_nothing_beside_it() -> None:
    rules = read_rules(["*.allowed.com"])
    for host in ("a.allowed.com", "a.b.allowed.com"):
        assert permits(rules, "https", host, 443)
    for host in ("allowed.com", "notallowed.com", "allowed.com.evil", "evilallowed.com", "a.allowed.com.evil.test"):
        assert not permits(rules, "https", host, 443)


@pytest.mark.row("000-20")
@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("*", "host"), ("*.com", "top-level"), ("*.co.uk", "anyone"), ("*.github.io", "anyone"),
        ("*.*.example.com", "host"),
        ("https://a.test/path", "path"), ("a.test/path", "path"), ("https://user@a.test", "user name"),
        ("user:pw@a.test", "user name"),
        ("ftp://a.test", "scheme"), ("a.test:0", "port"), ("a.test:99999", "port"), ("*.1.2.3.4", "top-level"),
        ("*.[::1]", "host"),
        ("http://", "host"), ("a.test?q", "host"), ("a.test#f", "host"), ("::1", "host"), ("2130706433", "address"),
    ],
)  # fmt: skip
@pytest.mark.abuse("D18")
def test_an_entry_that_cannot_be_enforced_says_why(entry: str, word: str) -> None:
    problem = host_problem(entry)
    assert problem is not None
    assert word in problem
    with pytest.raises(InvalidPolicy):
        Policy.from_security({"network": "allowlist", "network_allowlist": [entry]})


def test_equal_entries_in_other_spellings_cover_each_other() -> None:
    assert covers(["https://API.example.com."], "api.example.com")
    assert covers(["api.example.com"], "https://api.example.com:443")
    assert not covers(["https://api.example.com"], "http://api.example.com")
    assert not covers(["api.example.com"], "api.example.com:8443")
    assert covers(["*.example.com"], "*.api.example.com")
    assert not covers(["*.api.example.com"], "*.example.com")
    assert not covers(["api.example.com"], "*.api.example.com")


@pytest.mark.row("000-20")
def test_the_operators_list_wins_over_what_a_skill_asks_for() -> None:
    asked = Policy.from_security(
        {"network": "allowlist", "network_allowlist": ["api.example.com", "http://api.example.com", "evil.test"]}
    )
    granted = effective_policy(asked, Policy.ceiling({"network-allowlist": ["https://*.example.com"]}))
    assert granted.network_allowlist == ("api.example.com",)
    assert effective_policy(asked, Policy.ceiling({"network-allowlist": []})).network == "none"


def test_private_networks_are_opened_by_the_operator_alone_and_for_named_hosts() -> None:
    with pytest.raises(InvalidPolicy, match="unknown security field"):
        Policy.from_security({"private_networks": True})
    with pytest.raises(InvalidPolicy, match="network-allowlist"):
        Policy.ceiling({"private-networks": True})
    with pytest.raises(InvalidPolicy, match="private-networks must be true or false"):
        Policy.ceiling({"private-networks": "yes", "network-allowlist": ["a.test"]})
    ceiling = Policy.ceiling({"private-networks": True, "network-allowlist": ["wiki.corp"]})
    asked = Policy.from_security({"network": "allowlist", "network_allowlist": ["wiki.corp"]})
    assert not asked.private_networks
    assert effective_policy(asked, ceiling).private_networks
