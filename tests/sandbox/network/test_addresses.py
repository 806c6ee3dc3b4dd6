"""Which addresses may be dialled."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.network.connections import denied_class

PRIVATE = {
    "127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "10.1.2.3": "private network",
    "172.16.0.1": "private network", "172.31.255.255": "private network", "192.168.0.1": "private network",
    "fd12::1": "private network", "fc00::1": "private network", "100.64.0.1": "carrier-grade NAT",
}  # fmt: skip
NEVER = {
    "169.254.169.254": "metadata service", "100.100.100.200": "metadata service", "168.63.129.16": "metadata service",
    "fd00:ec2::254": "metadata service", "192.0.0.192": "metadata service", "169.254.0.1": "link-local",
    "fe80::1": "link-local", "fd00:c1::a9fe:a9fe": "metadata service", "fd00:42::42": "metadata service",
    "fd00:a9fe:a9fe::1": "metadata service",
    "224.0.0.1": "multicast", "ff02::1": "multicast", "0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
    "::ffff:127.0.0.1": "IPv4 inside IPv6", "::ffff:8.8.8.8": "IPv4 inside IPv6", "64:ff9b::7f00:1": "IPv4 inside IPv6",
    "2002:7f00::": "IPv4 inside IPv6", "2001::1": "IPv4 inside IPv6",
    "::127.0.0.1": "IPv4 inside IPv6", "::a9fe:a9fe": "IPv4 inside IPv6", "255.255.255.255": "reserved",
    "240.0.0.1": "reserved", "192.0.2.1": "reserved", "198.18.0.1": "reserved", "198.51.100.1": "reserved",
    "203.0.113.1": "reserved", "2001:db8::1": "reserved", "4000::1": "reserved", "3fff::1": "reserved",
}  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_dialled_only_when_they_are_opened(address: str) -> None:
    assert denied_class(ipaddress.ip_address(address), private=False) == PRIVATE[address]
    assert denied_class(ipaddress.ip_address(address), private=True) is None


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.abuse("D7", "D8")
def test_others_are_never_dialled(address: str) -> None:
    for private in (False, True):
        assert denied_class(ipaddress.ip_address(address), private=private) == NEVER[address]


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_the_public_internet_is(address: str) -> None:
    assert denied_class(ipaddress.ip_address(address), private=False) is None


@given(st.ip_addresses())
def test_nothing_the_standard_library_calls_special_is_dialled(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    special = address.is_multicast or address.is_unspecified or address.is_reserved or address.is_link_local
    if special or address.is_private or address.is_loopback:
        assert denied_class(address, private=False) is not None
