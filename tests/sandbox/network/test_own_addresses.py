"""The machine's own addresses count as loopback, public ones too: what is sent there passes no firewall."""

from __future__ import annotations

import asyncio
import ipaddress
import subprocess
import sys

import pytest

from skillyard.errors import NetworkRefused
from skillyard.network.connections import allowed_addresses, system_lookup

IN_A_NETWORK_OF_ITS_OWN = """
import asyncio, ctypes, fcntl, socket, struct
from skillyard.errors import NetworkRefused
from skillyard.network.connections import allowed_addresses, connect, system_lookup

NEW_USER, NEW_NETWORK, SET_ADDRESS, SET_MASK, SET_FLAGS = 0x10000000, 0x40000000, 0x8916, 0x891C, 0x8914
assert ctypes.CDLL(None, use_errno=True).unshare(NEW_USER | NEW_NETWORK) == 0, ctypes.get_errno()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    for name, address, mask in ((b"lo", "127.0.0.1", "255.0.0.0"), (b"lo:1", "8.8.4.4", "255.255.255.255")):
        for order, value in ((SET_ADDRESS, address), (SET_MASK, mask)):
            said = struct.pack("16sH2s4s8s", name, socket.AF_INET, b"", socket.inet_aton(value), b"")
            fcntl.ioctl(control, order, said)
    fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH14s", b"lo", 0x41, b""))

async def main():
    service = await asyncio.start_server(lambda reader, writer: writer.close(), "0.0.0.0", 8080)
    async with service:
        _, writer = await connect("8.8.4.4", 8080, ["8.8.4.4"])  # it is reached, unless somebody judges first
        writer.close()
        try:
            print(await allowed_addresses("8.8.4.4", private=False, lookup=system_lookup))
        except NetworkRefused as error:
            print(error.message)
        print(await allowed_addresses("8.8.8.8", private=False, lookup=system_lookup))
        print(await allowed_addresses("8.8.4.4", private=True, lookup=system_lookup))

asyncio.run(main())
"""


@pytest.mark.abuse("D23")
def test_a_public_address_that_is_the_machine_s_own_is_not_dialled() -> None:
    command = [sys.executable, "-c", IN_A_NETWORK_OF_ITS_OWN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "8.8.4.4 leads to an address that may not be reached: this machine",
        "(IPv4Address('8.8.8.8'),)",
        "(IPv4Address('8.8.4.4'),)",
    ], done.stderr


def test_a_host_with_another_address_is_reached_there_only() -> None:
    async def lookup(name: str) -> list[str]:
        return ["127.0.0.1", "8.8.8.8"]

    assert asyncio.run(allowed_addresses("example.org", private=False, lookup=lookup)) == (ipaddress.ip_address("8.8.8.8"),)
    with pytest.raises(NetworkRefused, match="loopback"):
        asyncio.run(allowed_addresses("127.0.0.2", private=False, lookup=system_lookup))
