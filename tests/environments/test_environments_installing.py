"""Granted packages are locked and installed once, shared by digest, used offline, and left half-made by nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from skillyard.environments import EnvironmentRequest, SkillGrant, environments_folder, prune_environments
from skillyard.environments.installer import DAY_S
from skillyard.environments.locked_packages import NodePackages
from skillyard.environments.program_table import find_program
from skillyard.environments.provision import granted_programs, require_programs
from skillyard.errors import DependenciesUnavailable, InvalidInput
from skillyard.sandbox import GrantedEnvironment, Job, Policy, RunMode, SandboxResult, backends

BACKENDS = ("bwrap", "landlock")


def grant(registry, *words: str, build: bool = False) -> EnvironmentRequest:
    granted = SkillGrant.from_words(words)
    return EnvironmentRequest(
        grant=SkillGrant(granted.packages, granted.npm, granted.programs, build), settings=registry.settings
    )


def run(
    folder: Path, entry: str, source: str, environment: GrantedEnvironment, backend: str = "bwrap", mode: RunMode = "script"
) -> SandboxResult:
    folder.mkdir(exist_ok=True)
    (folder / entry).write_text(source, "utf-8")
    policy = environment.raised(Policy(timeout_ms=20_000, pids=128))
    chosen = next(one for one in backends() if one.name == backend)
    return asyncio.run(chosen.run(Job(str(folder), entry, policy=policy, environment=environment, mode=mode)))


def half_made() -> list[str]:
    folder = environments_folder()
    return [path.name for path in folder.iterdir() if path.name.startswith("new-")] if folder.is_dir() else []


def test_equal_grants_share_one_environment_that_needs_no_network_later(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0", "VALUE = 42", requires=("beta>=1",))
    registry.add_wheel("beta", "1.5", "NAME = 'beta'")
    first = grant(registry, "alpha")(str(tmp_path))
    assert Path(first.python_packages, "beta.py").is_file()
    registry.close()
    (tmp_path / "other").mkdir()
    second = grant(registry, "alpha")(str(tmp_path / "other"))
    assert second == first
    assert second.digest == first.digest
    child = "subprocess.run([sys.executable, '-c', 'import alpha; print(alpha.VALUE)'], capture_output=True, text=True)"
    source = f"import alpha, beta, subprocess, sys\nprint(alpha.VALUE, beta.NAME)\nprint({child}.stdout)"
    for backend in BACKENDS:
        result = run(tmp_path / "skill", "main.py", source, first, backend)
        assert result.stdout.split() == [b"42", b"beta", b"42"], result.stderr


_WORKERS = """import multiprocessing, os, subprocess, sys
import alpha

def execute(parameters, context, config):
    worker = multiprocessing.get_context("spawn").Process(target=alpha.show)
    worker.start()
    worker.join()
    flags = subprocess._args_from_interpreter_flags()  # as joblib starts its workers
    done = subprocess.run([sys.executable, *flags, "-m", "alpha"], capture_output=True, text=True)
    print(done.stdout, done.stderr, sys.path.index(os.environ["PYTHONPATH"]) > 1)
"""


def test_workers_that_python_starts_with_its_own_flags_find_what_is_granted(registry, tmp_path: Path) -> None:
    lines = "def show(): print(42)\nif __name__ == '__main__': show()"
    registry.add_wheel("alpha", "1.0", lines)
    granted = grant(registry, "alpha")(str(tmp_path))
    for backend in BACKENDS:
        result = run(tmp_path / "skill", "main.py", _WORKERS, granted, backend, mode="call")
        assert result.stdout.split() == [b"42", b"42", b"True"], result.stderr


def test_what_is_declared_is_not_installed_without_consent(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0")
    (tmp_path / "requirements.txt").write_text("alpha\n")
    request = EnvironmentRequest("main.py", settings=registry.settings)
    assert request(str(tmp_path)).python_packages == ""
    assert registry.asked == []
    allowed = EnvironmentRequest("main.py", install=True, settings=registry.settings)(str(tmp_path))
    assert allowed.python_packages != ""
    assert request(str(tmp_path)) == allowed  # it is there now


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nosuch",), "the index has no such package or version"),
        (("alpha>2",), "the index has no such package|no versions of the packages fit together"),
        (("alpha<1.5", "needy"), "no versions of the packages fit together"),
        (("damaged",), "a downloaded file has not the hash that was promised"),
        (("npm:nosuch",), "the registry has no such package or version"),
        (("npm:bent",), "a downloaded file has not the hash that was promised"),
        (("sourceonly",), "no wheel for this machine"),
    ],
)
def test_bad_packages_are_an_error_each_and_leave_nothing(
    registry, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    registry.add_wheel("alpha", "1.0")
    registry.add_wheel("alpha", "2.0")
    registry.add_wheel("needy", "1.0", requires=("alpha>=2",))
    registry.add_wheel("damaged", "1.0", digest="0" * 64)
    registry.add_npm("bent", {"index.js": ""}, integrity="sha512-" + "A" * 86 + "==")
    registry.add_source("sourceonly", {"PKG-INFO": "Metadata-Version: 2.1\nName: sourceonly\nVersion: 1.0\n", "setup.py": ""})
    with pytest.raises(DependenciesUnavailable, match=message) as caught:
        grant(registry, *words)(str(tmp_path))
    assert caught.value.hint
    assert caught.value.details["dependencies"] == [word.removeprefix("npm:") for word in words]
    assert half_made() == []
    assert [path for path in environments_folder().iterdir() if path.is_dir()] == []


def test_only_the_package_that_is_wrong_is_named(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0")
    with pytest.raises(DependenciesUnavailable, match="nosuch") as caught:
        grant(registry, "alpha", "nosuch>=2")(str(tmp_path))
    assert caught.value.details["dependencies"] == ["nosuch>=2"]
    assert caught.value.hint == "check the spelling and the version"


@pytest.mark.parametrize("word", ["alpha", "npm:alpha"])
def test_an_index_that_cannot_be_reached_is_named_as_such(registry, tmp_path: Path, word: str) -> None:
    registry.close()
    with pytest.raises(DependenciesUnavailable, match="cannot be reached"):
        grant(registry, word)(str(tmp_path))
    assert half_made() == []


def test_an_interrupt_in_the_middle_ends_the_installer_and_leaves_nothing(
    registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add_wheel("alpha", "1.0")
    started: list[subprocess.Popen[bytes]] = []
    usual = subprocess.Popen.communicate

    def interrupted(process: subprocess.Popen[bytes], *arguments: object, **options: object) -> object:
        if process in started:
            return usual(process)
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grant(registry, "alpha")(str(tmp_path))
    assert [process.returncode is not None for process in started] == [True]
    assert half_made() == []
    monkeypatch.undo()
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    assert grant(registry, "alpha")(str(tmp_path)).python_packages


def test_two_processes_at_once_make_the_same_environment(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0")
    code = (
        "import sys; from skillyard.environments import EnvironmentRequest, SkillGrant; "
        f"request = EnvironmentRequest(grant=SkillGrant.from_words(['alpha']), settings={registry.settings!r}); "
        f"print(request({str(tmp_path)!r}).python_packages)"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [process.communicate()[0].strip() for process in both]
    assert folders[0] == folders[1] != ""
    assert (Path(folders[0]) / "alpha.py").is_file()
    assert half_made() == []


def test_npm_packages_are_seen_from_every_folder_and_none_of_their_scripts_is_run(registry, tmp_path: Path) -> None:
    bad = tmp_path / "was-run"
    registry.add_npm(
        "alpha",
        {"index.js": "module.exports = require('beta') + 1"},
        dependencies={"beta": "^1.0.0"},
        scripts={"postinstall": f"touch {bad}"},
        hasInstallScript=True,
    )
    registry.add_npm("beta", {"index.js": "module.exports = 41"})
    environment = grant(registry, "npm:alpha")(str(tmp_path))
    assert not bad.exists()
    lock = NodePackages(("alpha",), False, registry.settings).lock.read_text("utf-8")
    assert lock.count('"integrity": "sha512-') == 2
    registry.close()
    assert grant(registry, "npm:alpha")(str(tmp_path)) == environment
    child = "subprocess.run(['node', '-p', 'require(\"alpha\")'], capture_output=True, text=True)"
    python = f"import subprocess\nprint({child})"
    for backend in BACKENDS:
        module = run(tmp_path / "skill", "main.mjs", "import alpha from 'alpha'; console.log(alpha)", environment, backend)
        assert module.stdout == b"42\n", module.stderr
    assert b"stdout='42" in run(tmp_path / "skill", "main.py", python, environment).stdout


def test_a_package_without_a_wheel_is_built_in_the_sandbox_where_that_is_allowed(registry, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    registry.add_source(
        "builds",
        {
            "PKG-INFO": "Metadata-Version: 2.1\nName: builds\nVersion: 1.0\n",
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            '[project]\nname = "builds"\nversion = "1.0"\n',
            "backend.py": "import os, zipfile\n"
            "def build_wheel(folder, settings=None, metadata=None):\n"
            f"    try:\n        open({str(seen)!r}, 'w')\n        where = 'outside'\n"
            "    except OSError:\n        where = 'inside'\n"
            "    name = 'builds-1.0-py3-none-any.whl'\n"
            "    with zipfile.ZipFile(os.path.join(folder, name), 'w') as made:\n"
            "        made.writestr('builds.py', 'WHERE = ' + repr(where))\n"
            "        about = 'Metadata-Version: 2.1\\nName: builds\\nVersion: 1.0\\n'\n"
            "        made.writestr('builds-1.0.dist-info/METADATA', about)\n"
            "        wheel = 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'\n"
            "        made.writestr('builds-1.0.dist-info/WHEEL', wheel)\n"
            "        made.writestr('builds-1.0.dist-info/RECORD', '')\n"
            "    return name\n",
        },
    )
    environment = grant(registry, "builds", build=True)(str(tmp_path))
    assert not seen.exists()
    result = run(tmp_path / "skill", "main.py", "import builds; print(builds.WHERE)", environment)
    assert result.stdout == b"inside\n", result.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_granted_programs_work_in_the_sandbox(tmp_path: Path, backend: str) -> None:
    environment = granted_programs(("qpdf", "pdftotext"))
    assert "/etc/fonts" in environment.mounts
    assert environment.needs["memory_mb"] == 512
    source = "qpdf --empty a.pdf && qpdf --check a.pdf && pdftotext -v && cat /etc/fonts/fonts.conf | head -1\n"
    result = run(tmp_path / "skill", "main.sh", f"cd $TMPDIR\n{source}", environment, backend)
    assert b"<?xml" in result.stdout, result.stderr
    assert result.exit_code == 0


def test_programs_raise_the_limits_that_the_operator_did_not_set() -> None:
    office = GrantedEnvironment(needs={"memory_mb": 1536, "pids": 32})
    assert office.raised(Policy()).memory_mb == 1536
    assert office.raised(Policy()).pids == 64
    assert office.raised(Policy(), fixed=frozenset({"memory_mb"})) == Policy()


def test_chromium_gets_its_options_and_sockets_and_others_do_not() -> None:
    browser = granted_programs(("chromium",))
    assert "--no-sandbox" in browser.commands["chromium"]
    assert browser.local_sockets
    assert not granted_programs(("qpdf",)).local_sockets


def test_local_sockets_are_inside_the_run_and_only_where_it_has_its_own_network(tmp_path: Path) -> None:
    source = "import socket\ntry:\n    socket.socket(socket.AF_UNIX)\n    print('made')\n"
    source += "except OSError as error:\n    print(error.errno)\n"
    sockets = GrantedEnvironment(local_sockets=True, digest="x")
    assert run(tmp_path / "skill", "main.py", source, sockets).stdout == b"made\n"
    assert run(tmp_path / "skill", "main.py", source, GrantedEnvironment()).stdout == b"97\n"
    assert run(tmp_path / "skill", "main.py", source, sockets, "landlock").stdout == b"97\n"


def test_what_only_a_request_names_is_used_but_not_installed(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0")
    registry.add_npm("gamma", {"index.js": ""})
    for words in (["alpha"], ["npm:gamma"]):
        named = SkillGrant.from_words(words)
        requested = EnvironmentRequest(requested=named, settings=registry.settings)
        with pytest.raises(DependenciesUnavailable, match="not installed"):
            requested(str(tmp_path))
        assert registry.asked == []
        agreed = EnvironmentRequest(grant=named, requested=named, settings=registry.settings)(str(tmp_path))
        assert agreed.python_packages or agreed.node_modules
        assert requested(str(tmp_path)) == agreed  # it is there now
        registry.asked.clear()


def test_a_program_that_was_not_granted_is_not_shown_because_a_request_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own-tool").write_text("#!/bin/sh\n")
    (tmp_path / "own-tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependenciesUnavailable, match="own-tool is not granted"):
        require_programs(("own-tool",), granted=())
    require_programs(("own-tool",), granted=("own-tool",))
    require_programs(("env",), granted=())  # every sandbox sees it


def test_a_program_that_is_not_here_is_an_error_only_where_it_is_asked_for_by_name() -> None:
    assert find_program("nosuchprogram") is None
    assert granted_programs(("nosuchprogram",)).mounts == ()
    with pytest.raises(DependenciesUnavailable, match="the program nosuchprogram is not installed") as caught:
        require_programs(("nosuchprogram",))
    assert "PATH" in (caught.value.hint or "")


def test_what_nobody_used_for_long_is_removed(registry, tmp_path: Path) -> None:
    registry.add_wheel("alpha", "1.0")
    environment = grant(registry, "alpha")(str(tmp_path))
    folder = Path(environment.python_packages)
    now = folder.stat().st_mtime
    assert prune_environments(now=now + 29 * DAY_S).environments == 0
    assert folder.is_dir()
    report = prune_environments(now=now + 31 * DAY_S)
    assert (report.environments, report.locks) == (1, 1)
    assert list(environments_folder().iterdir()) == []


@pytest.mark.parametrize(
    "word",
    [
        "https://evil.test/x.whl", "--index-url=x", "../x", "a b", "", "npm:../x", "npm:git+ssh://x", "npm:x@file:../y",
        "npm:X Y",
        "npm:a@npm:b", "program:/bin/sh", "program:a b", "program:-x", "x @ file:///etc",
    ],
)  # fmt: skip
def test_only_names_can_be_granted(word: str) -> None:
    with pytest.raises(InvalidInput):
        SkillGrant.from_words([word])
