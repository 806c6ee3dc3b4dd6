"""Servers over folders of real skills, in this process and in another."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.server.lowlevel import Server

from skillyard.catalog import SkillCatalog
from skillyard.mcp.server import create_server
from skillyard.tools import SkillTools


@pytest.fixture
def shop(skills_root: Path, make_skill: Any) -> Path:
    """A folder with skills of every sort: plain, with files, not to the specification, broken."""
    make_skill(
        skills_root,
        "pdf",
        front_matter=(
            "name: pdf\ndescription: Works with PDF files.\nlicense: Apache-2.0\n"
            'metadata:\n  version: 1.0\nuser-invocable: true\nnumber: "2"'
        ),
        body="# PDF\n\nSee FORMS.md.\n",
        files={
            "forms.md": "the forms\r\n",
            "templates/invoice.md": "an invoice",
            "templates/eu/vat rates.md": "rates: 20 %",
            "scripts/fill.py": "print('x')\n",
            "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00\x00",
            "latin.txt": "café".encode("latin-1"),
            ".env": "SECRET=1",
        },
    )
    make_skill(skills_root, "weather", description="Tells the weather.")
    make_skill(skills_root, "miner", front_matter="name: PDF Miner\ndescription: Digs.\nallowed-tools: [Read, Write]")
    make_skill(skills_root, "broken", front_matter="name: broken")
    return skills_root


@pytest.fixture
def server(shop: Path) -> Callable[..., Server[Any]]:
    """A server in this process; takes the options of `SkillTools`."""

    def make(*, watch: bool = False, **options: Any) -> Server[Any]:
        catalog = SkillCatalog.discover(roots=[shop], cache=False)
        return create_server(SkillTools(catalog, repeat="text", **options), watch=watch)

    return make


@pytest.fixture
def command(shop: Path) -> Callable[..., StdioServerParameters]:
    """How to start a server in another process; takes more arguments of its command line."""
    return lambda *more: StdioServerParameters(
        command=sys.executable,
        args=["-W", "error", "-m", "skillyard", "mcp", "--root", str(shop), *more],
        env=dict(os.environ),
    )
