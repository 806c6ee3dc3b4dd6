"""An update that widens what a skill may do shows exactly that, and waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pattern_growth import growth_of

from skillyard.document import parse_document
from skillyard.environments.declared import SOURCE_LIMIT
from skillyard.errors import ConsentRequired
from skillyard.registry import PowerChange, Registry
from skillyard.registry.powers import Powers, read_powers
from skillyard.registry.source_replacements import publisher_of_address

NETWORK = "security:\n  network: allowlist\n  network_allowlist: [{hosts}]\n"


def _script(packages: str) -> str:
    return f"# /// script\n# dependencies = [{packages}]\n# ///\nprint(1)\n"


@pytest.mark.parametrize(
    ("header", "files", "sentence"),
    [
        ("", {"scripts/new.py": "print(1)\n"}, "has the script scripts/new.py"),
        (NETWORK.format(hosts="api.example.com"), {}, "may reach api.example.com"),
        ("security:\n  environment: {UNIT: celsius}\n", {}, "is given the variable UNIT"),
        ("allowed-tools: Read\n", {}, "uses the tool Read"),
        ("security:\n  filesystem: read-write\n", {}, "uses the file system read-write, before read-only"),
        ("security:\n  timeout_ms: 60000\n", {}, "may run 60,000 ms, before 30,000"),
        ("security:\n  memory_mb: 512\n", {}, "may use 512 MB of memory, before 256"),
        ("type: distributed\nconfig: {serverId: tickets, toolName: open}\n", {}, "calls tickets: open"),
        ("", {".mcp.json": "{}"}, "brings the hidden file .mcp.json"),
        ("requires:\n  env: [API_TOKEN]\n", {}, "wants your variable API_TOKEN"),
        ("requires:\n  skills: [pdf]\n", {}, "uses the skill pdf"),
        ("requires:\n  mcp_servers: [tickets]\n", {}, "calls tickets"),
        ("triggers:\n  event_types: [mail.received]\n", {}, "starts by itself on the event mail.received"),
        ("type: service\nconfig: {endpoint: 'https://a.org/x', method: DELETE}\n", {}, "calls DELETE https://a.org/x"),
    ],
)
@pytest.mark.abuse("F19")
def test_each_widening_is_reported_and_refused_without_consent(
    header: str, files: dict[str, str], sentence: str, registry: Registry, write: Any
) -> None:
    folder = write()
    before = registry.install(str(folder)).results[0].version
    write(header=header, files=files)
    with pytest.raises(ConsentRequired) as refused:
        registry.install(str(folder))
    changes: Any = refused.value.details["changes"]
    assert [change["widened"] for change in changes] == [[sentence]]
    assert registry.installed.current("tidy").version == before
    assert registry.install(str(folder), consent=lambda changes: True).results[0].status == "updated"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://github.com/a/skills", "https://github.com/b/skills", False),
        ("https://github.com/a/skills", "https://github.com/a/skills.git", True),
        ("https://github.com/a/s/releases/v1/x.zip", "https://github.com/a/s/releases/v2/x.zip", True),
        ("https://github.com/a/s/releases/v1/x.zip", "https://github.com/b/s/releases/v1/x.zip", False),
        ("https://example.com/x-1.zip", "https://EXAMPLE.com/x-2.zip", True),
        ("https://example.com/x.zip", "https://example.org/x.zip", False),
        ("https://example.com", "https://example.com/", True),
        ("https://github.com/a/skills", "ssh://git@github.com/a/skills.git", True),
        ("https://example.com/x.zip", "http://example.com/x.zip", False),
        ("https://example.com/x.zip", "https://example.com:8443/x.zip", False),
    ],
)
def test_who_publishes_is_reported_by_the_host_and_on_shared_sites_by_the_owner(one: str, other: str, same: bool) -> None:
    assert (publisher_of_address(one) == publisher_of_address(other)) is same


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("allowed-tools: []\n", "", "no longer limits itself to tools"),
        (
            "type: distributed\nconfig: {serverId: s, toolName: read}\n",
            "type: distributed\nconfig: {serverId: s, toolName: delete}\n",
            "calls s: delete",
        ),
        (
            "type: distributed\nconfig: {serverId: s, toolName: t}\n",
            "type: distributed\nconfig: {serverId: s}\n",
            "calls s (a pool",
        ),
    ],
)
def test_nothing_is_widened_without_a_word(before: str, after: str, sentence: str, registry: Registry, write: Any) -> None:
    folder = write(header=before)
    registry.install(str(folder))
    write(header=after)
    with pytest.raises(ConsentRequired, match=re.escape(sentence)):
        registry.install(str(folder))


def test_a_package_behind_a_long_comment_is_seen(registry: Registry, write: Any) -> None:
    comment = "# nothing to see\n" * (SOURCE_LIMIT // 20)
    folder = write(files={"scripts/a.py": comment})
    registry.install(str(folder))
    write(files={"scripts/a.py": comment + _script('"evil"')})
    with pytest.raises(ConsentRequired, match="installs the package evil"):
        registry.install(str(folder))


def test_data_among_the_scripts_is_no_program(write: Any) -> None:
    folder = write(files={"scripts/schema.xsd": "<x/>", "scripts/run.sh": "true", "scripts/tool": "#!/bin/sh\n"})
    powers = read_powers(folder, parse_document((folder / "SKILL.md").read_bytes()))
    assert powers.scripts == ("scripts/run.sh", "scripts/tool")


def test_a_package_that_a_script_asks_for_is_a_power(registry: Registry, write: Any) -> None:
    folder = write(files={"scripts/a.py": _script("")})
    registry.install(str(folder))
    write(files={"scripts/a.py": _script('"requests>=2"')})
    with pytest.raises(ConsentRequired, match="installs the package requests>=2"):
        registry.install(str(folder))


def test_the_answer_no_changes_nothing(registry: Registry, write: Any) -> None:
    folder = write()
    before = registry.install(str(folder)).results[0].version
    write(files={"run.sh": "echo\n"})
    asked: list[Sequence[PowerChange]] = []

    def no(changes: Sequence[PowerChange]) -> bool:
        asked.append(changes)
        return False

    with pytest.raises(ConsentRequired):
        registry.install(str(folder), consent=no)
    assert [change.skill_id for change in asked[0]] == ["tidy"]
    assert registry.installed.current("tidy").version == before
    assert registry.installed.history("tidy")[0].error_code == "consent_required"


def test_less_power_or_a_host_that_was_covered_needs_no_consent(registry: Registry, write: Any) -> None:
    folder = write(header=NETWORK.format(hosts="'*.example.com', other.example.org"), files={"scripts/a.py": "print(1)\n"})
    registry.install(str(folder))
    write(header=NETWORK.format(hosts="api.example.com"))
    (folder / "scripts/a.py").unlink()
    assert registry.install(str(folder)).results[0].status == "updated"


def test_a_skill_that_no_longer_limits_its_tools_is_wider(tmp_path: Path) -> None:
    limited, free = Powers(tools=("Read",), any_tool=False), Powers()
    assert free.added_since(limited) == ("no longer limits itself to tools",)
    assert limited.added_since(free) == ("uses the tool Read",)
    assert limited.added_since(limited) == ()


def test_a_first_install_tells_what_the_skill_may_do(registry: Registry, write: Any) -> None:
    folder = write(header=NETWORK.format(hosts="api.example.com"), files={"tool": "#!/bin/sh\n"})
    (folder / "tool").chmod(0o755)
    powers = registry.install(str(folder)).results[0].powers
    assert powers is not None
    assert powers.sentences() == ("has the script tool", "may reach api.example.com")
    assert read_powers(folder, parse_document((folder / "SKILL.md").read_bytes())) == powers


@pytest.mark.abuse("G22")
@pytest.mark.parametrize("line", ["# /// script\n", "# /// a\n# ///\n", "# x\n", "# ///\n"])
def test_powers_are_read_in_time_that_grows_with_a_script(write: Any, line: str) -> None:
    def script(size: int) -> Any:
        folder = write(files={"scripts/a.py": "# /// script\n" + line * size})
        return folder, parse_document((folder / "SKILL.md").read_bytes()), size

    def read(given: Any) -> None:
        folder, document, size = given
        (folder / "scripts/a.py").write_text("# /// script\n" + line * size)
        read_powers(folder, document)

    assert growth_of(read, script, 2_000) < 9
