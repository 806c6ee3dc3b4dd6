"""What a skill needs is read from its files: imports, commands, install lines; nothing is run, and nothing is given by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import growth_of

from skillyard.environments import NO_GRANT, SkillGrant, declared_needs, skill_needs
from skillyard.environments.program_table import PROGRAMS, distribution_of, npm_package_of
from skillyard.environments.proposal import missing_grant, missing_hint
from skillyard.environments.script_uses import called_programs, code_blocks, install_lines, javascript_uses, python_uses


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return str(folder)


def imports(source: str) -> list[str]:
    return [one.name for one in python_uses(source, PROGRAMS).imports]


@pytest.mark.parametrize(
    ("module", "distribution"),
    [
        ("PIL.Image", "pillow"), ("yaml", "PyYAML"), ("cv2", "opencv-python-headless"), ("docx.shared", "python-docx"),
        ("pptx", "python-pptx"), ("bs4", "beautifulsoup4"), ("pypdf", "pypdf"), ("sklearn.svm", "scikit-learn"),
        ("google.genai.types", "google-genai"), ("json", None), ("os.path", None), ("uno", None), ("_thread", None),
        ("skillyard_sdk", None), ("--index-url", None), ("airflow.models", "apache-airflow"), ("fpdf", "fpdf2"),
        ("azure.storage.blob.aio", "azure-storage-blob"), ("azure", None), ("google.cloud.storage", "google-cloud-storage"),
    ],
)  # fmt: skip
def test_the_distribution_of_a_module_is_known(module: str, distribution: str | None) -> None:
    assert distribution_of(module) == distribution


@pytest.mark.parametrize(
    ("specifier", "package"),
    [
        ("docx", "docx"), ("docx/build/index.js", "docx"), ("@scope/name/deep", "@scope/name"), ("node:fs", None), ("fs", None),
        ("fs/promises", None), ("./a", None), ("../a.js", None), ("/abs", None), ("https://x/y.js", None), ("#own", None),
    ],
)  # fmt: skip
def test_the_npm_package_of_a_specifier_is_known(specifier: str, package: str | None) -> None:
    assert npm_package_of(specifier) == package


def test_python_imports_are_read_from_the_syntax_tree() -> None:
    source = """
from __future__ import annotations
import os, pypdf as reader
from PIL import Image
from . import own
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pandas
try:
    import ujson
except ImportError:
    import json
def late():
    import numpy
text = "import requests"
"""
    found = set(imports(source))
    assert {"os", "pypdf", "PIL.Image", "ujson", "json", "numpy"} <= found
    assert not found & {"pandas", "requests", "own"}


def test_programs_that_python_starts_are_read() -> None:
    source = """
import subprocess, shutil
subprocess.run(["qpdf", "--check", name])
command = ["soffice", "--headless"]
subprocess.run(f"pdftoppm -png {name}", shell=True)
shutil.which("tesseract")
print("ffmpeg")
"""
    found = [one.name for one in python_uses(source, PROGRAMS).programs]
    assert sorted(set(found)) == ["pdftoppm", "qpdf", "soffice", "tesseract"]


def test_javascript_imports_are_read_outside_comments_texts_and_regular_expressions() -> None:
    source = r"""
// import a from "comment-one";
/* require("comment-two") */
import { Document } from "docx";
import "side-effect";
export * from '@scope/pack/deep';
const x = require('pptxgenjs'), y = await import(`sharp`);
const s = 'require("in-text")', r = /require("in-regex")/g, half = 4 / 2; const z = require("after-division");
const t = `${require("in-template")}`;
const n = require(name), u = require("./own");
child.execFileSync("pdftotext", [f]);
"""
    uses = javascript_uses(source, PROGRAMS)
    names = [one.name for one in uses.imports]
    assert names == ["docx", "side-effect", "@scope/pack/deep", "pptxgenjs", "sharp", "after-division", "./own"]
    assert [one.name for one in uses.programs] == ["pdftotext"]
    assert next(one.line for one in uses.imports if one.name == "docx") == 4


def test_commands_of_shell_code_are_found_where_a_command_begins() -> None:
    code = "LANG=C qpdf --check a.pdf | pdftotext - && sudo ffmpeg -i x; echo soffice\nout=$(tesseract a b) # pandoc\n"
    assert [one.name for one in called_programs(code, PROGRAMS)] == ["qpdf", "pdftotext", "ffmpeg", "tesseract"]
    assert [one.name for one in called_programs("x $(tesseract a b)", PROGRAMS)] == ["tesseract"]


def test_install_lines_name_packages_and_end_where_prose_begins() -> None:
    text = (
        '- `pip install "markitdown[pptx]" pillow` - text\n# Requires: pip install pytesseract pdf2image\n'
        "pip install -r requirements.txt\nRun pip install pypdf to begin\n`npm install -g docx @scope/name@^1`\n"
        "pip install https://evil.test/x.whl\nnpm i ./local\n"
    )
    assert [(kind, name) for kind, name, _ in install_lines(text)] == [
        ("packages", "markitdown[pptx]"), ("packages", "pillow"), ("packages", "pytesseract"), ("packages", "pdf2image"),
        ("packages", "pypdf"), ("npm", "docx"), ("npm", "@scope/name@^1"),
    ]  # fmt: skip


def test_code_blocks_are_told_apart_by_their_language() -> None:
    blocks = code_blocks("a\n```python\nimport x\n```\n~~~bash\nqpdf\n```\n~~~\n````js\n```\n````\n```\nplain\n```\n")
    assert blocks.python == [("import x", 3)]
    assert blocks.shell == [("qpdf\n```", 6)]
    assert blocks.javascript == [("```", 10)]


def test_everything_that_a_skill_declares_is_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        SKILL_dot_md='---\nname: x\ndescription: d\nrequires:\n  packages: ["openpyxl>=3.1"]\n  bins: [qpdf, strange]\n---\n',
        requirements_dot_txt="pypdf>=3  # a reader\n-r other.txt\n--index-url https://evil.test\ngit+https://evil.test/x\n",
        pyproject_dot_toml='[project]\nname = "x"\nversion = "1"\ndependencies = ["lxml"]\n',
        package_dot_json='{"dependencies": {"docx": "^9", "local": "file:../x", "any": "*"}}',
        scripts__requirements_dot_txt="numpy ; python_version >= '3.9'\n",
    )
    needs = declared_needs(folder)
    assert needs.grant.packages == ("pypdf>=3", "lxml", 'numpy; python_version >= "3.9"', "openpyxl>=3.1")
    assert needs.grant.npm == ("docx@^9", "any")
    assert needs.grant.programs == ("qpdf",)
    assert len(needs.ignored) == 2
    assert "git+https" in needs.ignored[0]


def test_the_proposal_holds_against_what_was_granted(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        SKILL_dot_md="---\nname: x\ndescription: d\n---\n```bash\nqpdf a.pdf\n```\nInstall: `npm install -g docx`\n",
        scripts__main_dot_py="import json, helpers.tools, yaml\nfrom pdf2image import convert_from_path\n",
        scripts__helpers__tools_dot_py="import os\n",
        scripts__broken_dot_py="def (:\n",
    )
    needs = skill_needs(folder, "my skill")
    assert needs.proposed.words == ("pdf2image", "PyYAML", "npm:docx", "program:pdftoppm", "program:qpdf")
    assert needs.command == "skillyard environment allow 'my skill'"
    assert "imports pdf2image, PyYAML" in needs.sentence
    assert next(item.where for item in needs.items if item.name == "PyYAML") == ("scripts/main.py:1",)
    granted = skill_needs(folder, "x", SkillGrant.from_words(["pyyaml>=6", "pdf2image", "npm:docx@9", "program:qpdf"]))
    assert granted.proposed.words == ("program:pdftoppm",)
    states = {item.name: item.state for item in granted.items}
    assert states["PyYAML"] == states["qpdf"] == "granted"


def test_a_skill_of_instructions_needs_nothing(tmp_path: Path) -> None:
    needs = skill_needs(write(tmp_path, SKILL_dot_md="---\nname: x\ndescription: d\n---\nWrite well.\n"), "x", NO_GRANT)
    assert (needs.items, needs.command, needs.sentence) == ((), "", "")


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'PIL'", ("pillow",)),
        ("ModuleNotFoundError: No module named 'pypdf.generic'", ("pypdf",)),
        ("Error: Cannot find module 'docx'\nRequire stack:", ("npm:docx",)),
        ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from /skill/x.mjs", ("npm:@a/b",)),
        ("x.sh: line 3: nosuchprogram: command not found", ("program:nosuchprogram",)),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'nosuchprogram'", ("program:nosuchprogram",)),
        ("Error: spawn nosuchprogram ENOENT", ("program:nosuchprogram",)),
        ("bash: sh: command not found", ()),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'", ()),
        ("ModuleNotFoundError: No module named 'sqlite3'", ()),
        ("ValueError: x", ()),
    ],
)  # fmt: skip
def test_what_a_failed_run_was_missing_is_recognized(stderr: str, words: tuple[str, ...]) -> None:
    assert missing_grant(stderr).words == words


def test_the_hint_says_which_grant_would_give_it(tmp_path: Path) -> None:
    hint = missing_hint("ModuleNotFoundError: No module named 'yaml'", "pdf")
    assert "`--with PyYAML`" in hint
    assert "skillyard environment allow pdf --with PyYAML" in hint
    assert 'packages = ["PyYAML"]' in hint
    assert "[skills.pdf]" in hint
    assert 'npm = ["docx"]' in missing_hint("Cannot find module 'docx'", "pdf")
    assert "apt-get install" not in hint
    (tmp_path / "scripts").mkdir()
    assert missing_hint("ModuleNotFoundError: No module named 'scripts'", "x", str(tmp_path)) == ""


@given(st.text(max_size=300))
def test_no_untrusted_text_is_too_much(text: str) -> None:
    python_uses(text, PROGRAMS)
    javascript_uses(text, PROGRAMS)
    list(install_lines(text))
    code_blocks(text)
    list(called_programs(text, PROGRAMS))
    for word in missing_grant(text).words:
        assert SkillGrant.from_words([word]).words == (word,)


@pytest.mark.abuse("G22")
@pytest.mark.parametrize(
    "piece", ["`", "/*", "'\\", '"a"', "/[", "npm install ", "pip install a ", "`" * 3 + "\n", "$(", "from 'x' ", "${`"]
)
def test_no_reader_takes_longer_than_its_text_grows(piece: str) -> None:
    def read(text: str) -> None:
        javascript_uses(text, PROGRAMS)
        list(install_lines(text))
        code_blocks(text)
        list(called_programs(text, PROGRAMS))

    assert growth_of(read, lambda count: piece * count, 1_000) < 9
