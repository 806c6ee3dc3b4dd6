"""The structure of the source: small modules, complete exports, light imports, one list of errors."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from types import ModuleType

import pytest
from parsed import parsed

import skillyard
from skillyard import errors

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
SOURCE = Path(skillyard.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
LAZY = [path for path in SOURCE.rglob("__init__.py") if "lazy_exports(" in path.read_text("utf-8")]
NO_EXPORTS = {"annotations", "TYPE_CHECKING", "lazy_exports"}
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
HEAVY = {
    "alembic", "asyncio", "fastapi", "httpx2", "jsonschema_rs", "mcp", "platformdirs", "pydantic", "rich", "sqlalchemy",
    "starlette", "subprocess", "typer", "uvicorn", "watchfiles", "yaml",
}  # fmt: skip


def _within(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_every_module_stays_small() -> None:
    assert len(MODULES) > 300
    lengths = {_within(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {path: lines for path, lines in lengths.items() if lines > 600} == {}


def test_every_module_begins_with_a_sentence() -> None:
    assert len(MODULES) > 300
    first = {_within(path): (ast.get_docstring(parsed(path)) or "\n").splitlines()[0] for path in MODULES}
    assert [path for path, line in first.items() if not line.endswith((".", ":", "?"))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_all_its_public_names_once_and_sorted(package: str) -> None:
    module = importlib.import_module(f"skillyard.{package}")
    exported = list(module.__all__)
    assert exported == sorted(set(exported), key=exported.index)
    assert exported in (sorted(exported), sorted(exported, key=str.lower), sorted(exported, key=_constants_first))
    assert _public_names(module) <= set(exported)
    for name in exported:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("path", LAZY, ids=_within)
def test_the_names_a_package_imports_later_are_those_that_type_checkers_see(path: Path) -> None:
    tree = parsed(path)
    package = ".".join(("skillyard", *path.parent.relative_to(SOURCE).parts))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {(str(node.module).removeprefix(f"{package}."), name.name) for node in imports for name in node.names}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_exports"]
    table = ast.literal_eval(calls[0].args[1])
    assert seen == {(module, name) for module, names in table.items() for name in names}


def _constants_first(name: str) -> tuple[bool, bool, str]:
    """The order the linter keeps: constants, then classes, then functions."""
    return (not name.isupper(), not name[0].isupper(), name)


def _public_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name not in NO_EXPORTS
    }


def test_the_library_gives_every_name_it_lists() -> None:
    for name in skillyard.__all__:
        assert getattr(skillyard, name) is not None
    assert "asyncio" not in dir(skillyard)


ERRORS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.SkillyardError)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_a_code_a_status_and_a_meaning_and_survives_pickling(error: type[errors.SkillyardError]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
    assert HTTPStatus(error.status) >= HTTPStatus.BAD_REQUEST
    assert error.__doc__ != (error.__base__ or object).__doc__
    assert error.__module__ == "skillyard.errors"
    again = pickle.loads(pickle.dumps(error("it broke", hint="fix it", entry="a")))
    assert (type(again), again.to_dict()) == (
        error,
        {"code": error.code, "message": "it broke", "hint": "fix it", "entry": "a"},
    )


def test_error_codes_are_unique() -> None:
    codes = [error.code for error in ERRORS]
    assert len(codes) == len(set(codes)) >= 70


def test_every_error_code_is_in_the_one_table() -> None:
    elsewhere = {
        node.name: _within(path)
        for path in MODULES
        if path != SOURCE / "errors.py"
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and any(word.arg == "code" for word in node.keywords)
    }
    assert elsewhere == {}


def test_importing_the_library_imports_nothing_heavy() -> None:
    script = "import sys, skillyard; skillyard.Catalog; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_the_source_names_no_unfinished_work() -> None:
    assert len(MODULES) > 300
    texts = {_within(module): module.read_text("utf-8") for module in MODULES}
    assert [path for path, text in texts.items() if "NotImplementedError" in text] == []
    words = {path: set(text.replace(":", " ").replace("#", " ").split()) for path, text in texts.items()}
    assert [path for path, found in words.items() if found & {"TODO", "FIXME", "XXX"}] == []


def test_no_module_is_called_by_a_name_that_says_nothing() -> None:
    assert len(MODULES) > 300
    assert not {"utils", "helpers", "common", "manager", "misc"} & {path.stem for path in MODULES}
