"""What `deploy/` starts is what the command takes, and lets through what the service takes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from skillyard.cli.commands import serve_commands
from skillyard.cli.program import add_common_options, command_parser
from skillyard.packages import PackageLimits

DEPLOY = Path(__file__).parents[2] / "deploy"


def arguments(words: list[str]) -> dict[str, object]:
    """What the command line means; the first word is the command."""
    assert words[0] == "serve"
    parser = command_parser("serve")
    serve_commands.add_serve_arguments(parser)
    add_common_options(parser)
    return vars(parser.parse_args(words[1:]))


def test_the_unit_starts_the_command_and_gives_it_longer_than_its_grace() -> None:
    unit = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "skillyard.service").read_text(), re.M))
    program, *words = shlex.split(unit["ExecStart"])
    assert program.endswith("/skillyard")
    given = arguments(words)
    assert int(unit["TimeoutStopSec"]) > int(str(given["grace"]))
    assert unit["NoNewPrivileges"] == "yes"


def test_the_container_starts_the_command() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    entry, command = (json.loads(re.findall(rf"^{word} (\[.*\])$", text, re.M)[-1]) for word in ("ENTRYPOINT", "CMD"))
    assert entry[0] == "skillyard"
    assert arguments([*entry[1:], *command])["port"] == 8787
    assert "USER 10001" in text


def test_nginx_lets_the_largest_upload_through() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    most = re.search(r"client_max_body_size (\d+)m;", text)
    assert most is not None
    assert int(most[1]) << 20 > PackageLimits().archive
    assert "proxy_buffering off" in text
