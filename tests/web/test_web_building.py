"""The page is built with whatever node there is, only when it changed, and every package carries it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MAKE = """
import fs from "node:fs";
const out = process.argv[process.argv.indexOf("--outDir") + 1];
fs.mkdirSync(`${out}/assets`, { recursive: true });
fs.copyFileSync("index.html", `${out}/index.html`);
fs.writeFileSync(`${out}/assets/words.js`, fs.readFileSync("src/words.js", "utf8").repeat(200));
"""


def _load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("build_page", ROOT / "web/build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


page = _load()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project whose page needs no package, so that no network is asked."""
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    tmp_path.joinpath("src/skillyard/server").mkdir(parents=True)
    about = {"name": "small", "version": "1.0.0", "type": "module", "engines": {"node": ">=20.19"}}
    (web / "package.json").write_text(json.dumps(about | {"scripts": {"build": "node make.mjs"}}), "utf-8")
    lock = {"name": "small", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "small", "version": "1.0.0"}}}
    (web / "package-lock.json").write_text(json.dumps(lock), "utf-8")
    (web / "make.mjs").write_text(_MAKE, "utf-8")
    (web / "index.html").write_text("<p>page</p>", "utf-8")
    (web / "src/words.js").write_text("export const word = 1;\n", "utf-8")
    return tmp_path


def test_a_build_leaves_the_bundle_with_compressed_copies_beside_its_files(project: Path) -> None:
    page.build(project)
    static = project / page.STATIC
    names = {str(path.relative_to(static)) for path in static.rglob("*") if path.is_file()}
    assert names == {".sources", "index.html", "assets/words.js", "assets/words.js.br", "assets/words.js.gz"}
    assert [path.name for path in static.parent.iterdir()] == ["static"]


def test_only_a_changed_source_makes_the_bundle_stale(project: Path) -> None:
    assert not page.fresh(project)
    page.build(project)
    assert page.fresh(project)
    (project / "web/node_modules/anything").write_text("x", "utf-8")
    assert page.fresh(project)
    (project / "web/src/words.js").write_text("export const word = 2;\n", "utf-8")
    assert not page.fresh(project)


def test_a_build_that_fails_says_why_and_leaves_the_old_bundle(project: Path) -> None:
    page.build(project)
    (project / "web/make.mjs").write_text("throw new Error('no such colour');", "utf-8")
    with pytest.raises(page.BuildFailed, match="no such colour"):
        page.build(project)
    assert (project / page.STATIC / "assets/words.js").is_file()
    assert [path.name for path in (project / page.STATIC).parent.iterdir()] == ["static"]


def test_packages_that_only_check_the_page_are_installed_for_its_checks_and_not_for_a_build(project: Path) -> None:
    web, node = project / "web", page.path_node(project) or page.wheel_node()
    for name in ("builds", "checks"):
        (web / name).mkdir()
        (web / name / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0"}), "utf-8")
    about = json.loads((web / "package.json").read_text("utf-8"))
    wanted = {"dependencies": {"builds": "file:builds"}, "devDependencies": {"checks": "file:checks"}}
    (web / "package.json").write_text(json.dumps(about | wanted), "utf-8")
    packages = {
        "": {"name": "small", "version": "1.0.0", **wanted},
        "builds": {"version": "1.0.0"},
        "checks": {"version": "1.0.0", "dev": True},
        "node_modules/builds": {"resolved": "builds", "link": True},
        "node_modules/checks": {"resolved": "checks", "link": True, "dev": True},
    }
    lock = {"name": "small", "version": "1.0.0", "lockfileVersion": 3, "packages": packages}
    (web / "package-lock.json").write_text(json.dumps(lock), "utf-8")
    page.install(web, node)
    assert sorted(path.name for path in (web / "node_modules").iterdir() if path.name[0] != ".") == ["builds"]
    page.install(web, node, for_checks=True)
    both = sorted(path.name for path in (web / "node_modules").iterdir() if path.name[0] != ".")
    (web / "node_modules/checks").unlink()
    page.install(web, node)  # all that a build needs is there: nothing is installed
    assert both == ["builds", "checks"]
    assert not (web / "node_modules/checks").exists()


def test_a_machine_without_node_builds_with_the_python_package(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = project / "tools"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    assert page.path_node(project) is None
    page.build(project)
    assert page.fresh(project)


@pytest.mark.parametrize(("said", "fits"), [("v18.20.8", False), ("v20.18.3", False), ("v20.19.0", True), ("v24.1.0", True)])
def test_a_node_on_the_path_is_taken_when_it_is_new_enough(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: str, fits: bool
) -> None:
    tools = project / "tools"
    tools.mkdir()
    for name in ("node", "npm"):
        (tools / name).write_text(f"#!/bin/sh\necho {said}\n", "utf-8")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert (page.path_node(project) is not None) == fits


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of this project with the page that was built from them, as `make test` leaves them."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("src", "docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "web", folder / "web", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy2(ROOT / name, folder / name)
    assert page.fresh(folder), "make page builds it"
    return folder


def _hatch(folder: Path, kind: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder / "made")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return next((folder / "made").glob("*.whl" if kind == "wheel" else "*.tar.gz"))


def test_a_wheel_carries_the_page_and_not_its_sources(sources: Path) -> None:
    names = zipfile.ZipFile(_hatch(sources, "wheel")).namelist()
    assert "skillyard/server/static/index.html" in names
    assert any(name.startswith("skillyard/server/static/assets/") and name.endswith(".js.br") for name in names)
    assert not any("web/" in name or "node_modules" in name for name in names)


def test_what_is_built_from_the_source_archive_is_the_same_page_without_any_node(sources: Path, tmp_path: Path) -> None:
    packed = _hatch(sources, "sdist")
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    subprocess.run(["tar", "-xzf", packed, "-C", tmp_path], check=True)  # Python before 3.11.4 has no filter to give
    unpacked = next(tmp_path.iterdir())
    assert f"{unpacked.name}/web/package-lock.json" in names
    assert not any("node_modules" in name for name in names)
    assert page.fresh(unpacked)
    with zipfile.ZipFile(_hatch(unpacked, "wheel")) as wheel:
        built = wheel.read("skillyard/server/static/index.html")
    assert built == (ROOT / page.STATIC / "index.html").read_bytes()
