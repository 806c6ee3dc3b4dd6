"""Attacks on the network: with `none` there is none, and an allow-list is refused where it cannot be kept whole."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox import GrantedEnvironment, Policy, SandboxBackend, choose_backend


@pytest.mark.row("000-20", "D-14")
@pytest.mark.abuse("D1", "D2", "D7")
async def test_nothing_can_be_reached(run_script) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        result = await run_script(
            f"""
            def connect(family, address):
                with socket.socket(family) as client:
                    client.settimeout(1)
                    client.connect(address)
            started = time.monotonic()
            found = [attempt(connect, socket.AF_INET, (host, port)) for host, port in
                     (("127.0.0.1", {server.getsockname()[1]}), ("1.1.1.1", 53), ("169.254.169.254", 80))]
            found.append(attempt(connect, socket.AF_INET6, ("::1", {server.getsockname()[1]})))
            answer([found, attempt(socket.getaddrinfo, "example.com", 80), time.monotonic() - started])
            """
        )
        with pytest.raises(TimeoutError):
            server.accept()
    assert result.status == "ok", result.stderr
    found, lookup, _ = result.value
    assert set(found) == {"EAFNOSUPPORT"}
    assert lookup == "gaierror" or lookup != "done"


@pytest.mark.abuse("D2", "D4")
async def test_no_family_of_sockets_can_be_made(run_script) -> None:
    result = await run_script(
        "answer({family: system_call(CALLS['socket'], family, kind, 0) for family in range(1, 46) for kind in (1, 2, 3)})"
    )
    assert set(result.value.values()) == {"EAFNOSUPPORT"}, result.value


@pytest.mark.abuse("D3")
async def test_unix_sockets_and_re_connected_pairs_are_dead_ends(run_script) -> None:
    result = await run_script(
        """
        pair = socket.socketpair()
        pair[0].send(b"hello")
        answer({
            "pair": pair[1].recv(5).decode(), "datagram": attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM),
            "unix": attempt(socket.socket, socket.AF_UNIX),
            "docker": os.path.exists("/run/docker.sock") and attempt(read, "/run/docker.sock"),
        })
        """
    )
    assert result.status == "ok", result.stderr
    assert result.value["pair"] == "hello"
    assert (result.value["datagram"], result.value["unix"]) == ("EAFNOSUPPORT", "EAFNOSUPPORT")
    assert result.value["docker"] in (False, "EACCES", "ENXIO")


@pytest.mark.abuse("D24")
async def test_sockets_that_programs_were_granted_reach_no_program_outside(
    run_script, backend: SandboxBackend, skill_tree: Path, tmp_path: Path
) -> None:
    """A listener of the machine by a name without a file, in the skill, in the work folder, and on a port."""
    name = f"skillyard-{os.getpid()}"
    with contextlib.ExitStack() as outside:
        listeners = [outside.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for listener, address in zip(listeners, (f"\0{name}", f"{skill_tree}/a.sock", f"{tmp_path}/b.sock"), strict=True):
            listener.bind(address)
            listener.listen()
        port = outside.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        result = await run_script(
            f"""
            def connect(family, address):
                with socket.socket(family) as client:
                    client.settimeout(1)
                    client.connect(address)

            def serve():
                server = socket.socket(socket.AF_UNIX)
                server.bind("own.sock")
                server.listen()
                connect(socket.AF_UNIX, "own.sock")

            addresses = [chr(0) + {name!r}, {str(skill_tree)!r} + "/a.sock", {str(tmp_path)!r} + "/b.sock", "a.sock", "b.sock"]
            answer({{
                "own": attempt(serve),
                "outside": [attempt(connect, socket.AF_UNIX, address) for address in addresses],
                "port": attempt(connect, socket.AF_INET, ("127.0.0.1", {port})),
                "datagram": attempt(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM),
                "route": attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW),
            }})
            """,
            policy=Policy(timeout_ms=10_000, filesystem="read-write"),
            environment=GrantedEnvironment(local_sockets=True, digest="sockets"),
            workspace=str(tmp_path),
        )
    assert result.status == "ok", result.stderr
    refused = "EAFNOSUPPORT"
    assert (result.value["datagram"], result.value["route"]) == (refused, refused)
    if backend.name == "landlock":
        assert {result.value["own"], result.value["port"], *result.value["outside"]} == {refused}
    else:
        assert (result.value["own"], result.value["port"]) == ("done", "ECONNREFUSED")
        assert set(result.value["outside"]) == {"ECONNREFUSED", "ENOENT"}


@pytest.mark.abuse("D22")
def test_an_allow_list_is_refused_by_a_backend_that_knows_no_hosts(backend: SandboxBackend) -> None:
    policy = Policy(network="allowlist", network_allowlist=("api.example.com",))
    assert backend.supports(Policy()) == backend.supports(Policy(network="allowlist")) == []
    if backend.name != "landlock":
        assert backend.supports(policy) == []
        return
    (unmet,) = backend.supports(policy)
    assert unmet.requirement == "network.allowlist"
    with pytest.raises(SandboxUnavailable) as caught:
        choose_backend(policy, backend.name)
    assert caught.value.details["unmet"]
    assert any("network" in remedy for remedy in caught.value.details["remedies"])


@pytest.mark.row("000-20")
@pytest.mark.abuse("D18")
def test_any_host_at_all_is_refused_by_every_backend(backend: SandboxBackend) -> None:
    (unmet,) = backend.supports(Policy(network="allowlist", network_allowlist=("*",)))
    assert unmet.requirement == "network.allowlist"


@pytest.mark.abuse("D18")
async def test_an_allow_list_without_hosts_is_no_network(run_script) -> None:
    result = await run_script(
        "answer([attempt(socket.socket), sorted(name for name in os.environ if 'PROXY' in name.upper())])",
        policy=Policy(network="allowlist"),
    )
    assert result.value == ["EAFNOSUPPORT", []]
    assert result.contacts == ()
