"""`skillyard push`, and a project whose skills come from an OCI registry, with Debian's registry program on loopback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oci_program import running_registry

pytestmark = pytest.mark.xdist_group("oci registry")
Call = Callable[..., Any]


@pytest.fixture
def repository(project: Path, tmp_path: Path) -> Iterator[str]:
    """A repository on this machine; the project is the working folder."""
    served = tmp_path / "served"
    served.mkdir()
    with running_registry(served) as host:
        yield f"oci+http://{host}/team/tidy"


def written(folder: Path, body: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: tidy\ndescription: Tidies up. Use in a test.\nversion: 1.0\n---\n{body}\n")
    return str(folder)


def open_private_hosts() -> None:
    file = Path(os.environ["HOME"], ".config/skillyard/skillyard.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[packages]\nprivate-hosts = true\n")


def test_a_project_is_kept_at_what_its_lock_says_of_a_registry(call: Call, repository: str, tmp_path: Path) -> None:
    open_private_hosts()
    folder = written(tmp_path / "tidy", "Do it.")
    pushed = call("push", folder, f"{repository}:stable", "--json").data
    assert call("push", folder, f"{repository}:stable").out.startswith(f"{repository}:stable is this already")
    installed = call("install", f"{repository}:stable", "--save", "--json")
    assert installed.data["results"][0]["origin"]["commit"] == pushed["digest"]
    assert call("sync", "--frozen").code == 0

    written(tmp_path / "tidy", "Do more.")
    refused = call("push", folder, f"{repository}:stable")
    assert (refused.code, "--force" in refused.err) == (1, True)
    assert call("push", folder, f"{repository}:stable", "--force", "--dry-run").out.startswith("would push")
    assert call("push", folder, f"{repository}:stable", "--force").code == 0
    assert call("update", "--check").code == 1
    assert "updated tidy" in call("update").out
    assert call("sync", "--frozen").code == 0  # `update` wrote the lock again
    assert call("verify").code == 0

    assert call("mirror", "export", f"{repository}s", "--check").code == 1
    assert call("mirror", "export", f"{repository}s").out == f"pushed {repository}s/tidy:1.0\n"
    assert call("mirror", "export", f"{repository}s", "--check").code == 0
    assert call("push", "tidy", f"{repository}s/tidy", "--json").data["same"]
    assert call("push", "nothing", repository).code == 1


def test_a_registry_on_this_machine_is_closed_until_the_user_opens_it(call: Call, repository: str, tmp_path: Path) -> None:
    refused = call("push", written(tmp_path / "tidy", "Do it."), repository)
    assert (refused.code, "private-hosts" in refused.err) == (1, True)
    assert call("install", repository).code == 1
