"""Old skills become skills of today that run, and nothing they said is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard import Catalog
from skillyard.document import check_document, parse_document, read_front_matter
from skillyard.errors import InvalidInput
from skillyard.interop import migrate_skills, validate_skills
from skillyard.interop.migration import FOLDERS

OLD = """---
name: greeter
displayName: 打招呼
description: 向指定的人打招呼。Use when somebody wants a greeting.
version: "1.10"
type: direct
category: 社交
keywords: [问候, greet]
permissions:
  network: true
  filesystem: read
  externalApis: [api.example.com]
input_schema:
  type: object
  properties:
    who: {type: string, description: 名字}
abp:
  kind: action
  tools: [{name: greet, description: Greets}]
config: {polite: true}
house_rule: {depth: {of: [1, 2]}}
---

# 打招呼

## 代码

```typescript
const greeting = (who: string): string => `你好，${who}`;
```

再来：

```ts
export async function execute(parameters: {who: string}) {
  return { output: greeting(parameters.who) };
}
```

## 示例

```ts
await execute({ who: "Ada" });
```
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Give a function that writes an old skill and returns its folder."""

    def make(text: str = OLD, name: str = "greeter", **files: str) -> Path:
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(text, "utf-8")
        for path, content in files.items():
            target = folder / path.replace("__", "/").replace("_dot_", ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")
        return folder

    return make


@pytest.mark.row("000-46", "000-50", "000-3", "D-1", "D-22")
async def test_a_migrated_skill_runs(write: Write) -> None:
    folder = write()
    report = migrate_skills(folder.parent)
    assert report.to_dict() | {"results": []} == {
        "total": 1, "migrated": 1, "validated": 0, "skipped": 0, "failed": 0, "results": []
    }  # fmt: skip
    code = (folder / "scripts/execute.ts").read_text()
    assert code.index("const greeting") < code.index("export async function execute")
    assert "Ada" not in code
    body = parse_document((folder / "SKILL.md").read_bytes()).body
    assert "const greeting" not in body
    assert 'await execute({ who: "Ada" });' in body  # it shows how to use it
    manifest = folder / "SKILL.md"
    manifest.write_text(manifest.read_text("utf-8").replace("timeout_ms: 3000", "timeout_ms: 30000"), "utf-8")  # a busy machine
    run = await Catalog.discover(roots=[folder.parent], cache=False).run("greeter", {"who": "Ada"}, timeout_ms=30_000)
    assert (run.error, run.output) == (None, "你好，Ada")


@pytest.mark.row("000-49", "000-52", "D-22")
def test_the_fields_are_in_one_order_with_defaults_and_nothing_is_lost(write: Write) -> None:
    folder = write()
    before = read_front_matter(OLD.encode()).values
    migrate_skills(folder)
    after = read_front_matter((folder / "SKILL.md").read_bytes())
    assert list(after.values)[:8] == [
        "name", "description", "displayName", "version", "type", "domain", "category", "keywords"
    ]  # fmt: skip
    assert after.texts["version"] == "1.10.0"
    for name in ("abp", "config", "house_rule", "permissions", "input_schema", "keywords", "category"):
        assert after.values[name] == before[name], name
    assert after.values["security"] == {
        "timeout_ms": 3000, "memory_mb": 128, "network": "allowlist", "filesystem": "read-only",
        "network_allowlist": ["api.example.com"],
    }  # fmt: skip
    assert after.values["triggers"] == {"intents": [], "phrases": ["打招呼", "问候", "greet"], "event_types": []}
    assert (after.values["tags"], after.values["capabilities"]) == (["问候", "greet"], ["greet"])
    assert after.values["resources"] == {"entry": "./scripts/execute.ts"}
    assert after.values["output_schema"] == {"properties": {}, "additionalProperties": True}


@pytest.mark.row("000-51", "000-54", "000-6")
def test_folders_are_made_and_what_was_there_is_kept(write: Write) -> None:
    text = "# Greeter\n\n```python\nprint(1)\n```\n"
    metadata = "name: greeter\ndescription: Greets. Use when greeting.\nversion: 2.0.0\nkeywords: [hi]\n"
    folder = write(text, METADATA_dot_yml=metadata)
    report = migrate_skills(folder.parent)
    assert report.ok
    assert all((folder / name).is_dir() for name in FOLDERS)
    (backup,) = folder.glob("SKILL.md.backup.*")
    assert re.fullmatch(r"SKILL\.md\.backup\.\d{13}", backup.name)
    assert backup.read_text() == text
    assert (folder / "METADATA.yml.legacy").read_text() == metadata
    assert not (folder / "METADATA.yml").exists()
    assert parse_document((folder / "SKILL.md").read_bytes()).metadata.version == "2.0.0"
    assert (folder / "scripts/execute.py").read_text() == "print(1)\n"


@pytest.mark.row("000-54")
def test_without_backup_nothing_is_left_behind_but_what_would_be_lost(write: Write) -> None:
    folder = write(METADATA_dot_yml="name: greeter\ndescription: Something else.\n")
    (result,) = migrate_skills(folder, backup=False).results
    assert any("differ" in issue for issue in result.issues)
    assert not list(folder.glob("SKILL.md.backup*"))
    assert (folder / "METADATA.yml.legacy").exists()
    other = write(name="other", METADATA_dot_yml="category: 社交\n")
    migrate_skills(other, backup=False)
    assert (
        sorted(path.name for path in other.iterdir()) == ["SKILL.md", *sorted(FOLDERS)] or not (other / "METADATA.yml").exists()
    )


@pytest.mark.row("000-48")
def test_what_has_the_form_of_today_is_skipped_and_twice_is_once(write: Write) -> None:
    folder = write()
    migrate_skills(folder)
    text = (folder / "SKILL.md").read_bytes()
    (result,) = migrate_skills(folder).results
    assert (result.status, result.issues) == ("skipped", ("already canonical",))
    assert (folder / "SKILL.md").read_bytes() == text
    assert len(list(folder.glob("SKILL.md.backup.*"))) == 1


@pytest.mark.row("000-46", "000-56")
def test_a_dry_run_writes_nothing_and_says_everything(write: Write) -> None:
    folder = write(METADATA_dot_yml="domain: social\n")
    before = sorted((path.relative_to(folder), path.read_bytes()) for path in folder.rglob("*") if path.is_file())
    (result,) = migrate_skills(folder, dry_run=True).results
    assert sorted((path.relative_to(folder), path.read_bytes()) for path in folder.rglob("*") if path.is_file()) == before
    assert result.status == "migrated"
    assert "write scripts/execute.ts" in result.details
    assert "rename METADATA.yml to METADATA.yml.legacy" in result.details
    assert "domain: social" in result.after
    (done,) = migrate_skills(folder).results
    assert (done.details, done.after) == (result.details, result.after)


@pytest.mark.row("000-53", "D-22")
def test_headings_are_added_where_there_are_none_and_in_the_language_of_the_text(write: Write) -> None:
    folder = write()
    migrate_skills(folder)
    text = (folder / "SKILL.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# 打招呼", "## 代码", "## 示例", "## 描述", "## 输入", "## 输出", "## 执行步骤", "## 安全",
    ]  # fmt: skip
    assert "- `who` (string): 名字" in text
    english = write(
        "---\nname: a\ntype: direct\ndescription: Says 输入 in passing. Use when testing.\n---\nWords.\n",
        "a",
    )
    migrate_skills(english)
    assert "## 输入" in (english / "SKILL.md").read_text()


@pytest.mark.row("000-55", "C-35")
def test_validation_is_the_check_of_the_full_profile(write: Write) -> None:
    folder = write("---\nname: bare\ntype: direct\ndescription: Bare. Use when testing.\n---\nDo it.\n", "bare")
    (result,) = validate_skills(folder.parent).results
    assert result.status == "failed"
    text = (folder / "SKILL.md").read_bytes()
    errors = [
        f"line {one.line}: {one.message}"
        for one in check_document(text, directory_name="bare", profile="full", files=["SKILL.md"])
        if one.severity == "error"
    ]
    assert list(result.issues) == errors
    assert "line 2: `triggers` is missing" in errors
    assert not any("domain" in issue or "references" in issue for issue in errors)
    write()
    migrate_skills(folder.parent / "greeter")
    results = {result.skill_name: result for result in validate_skills(folder.parent).results}
    assert (results["greeter"].status, results["greeter"].issues) == ("validated", ())


def _example(name: str, shown: str, about: str, rest: str = "", body: str = "") -> str:
    return f"---\nname: {name}\ndisplayName: {shown}\ndescription: {about}\nversion: 1.0.0\n{rest}---\n{body}"


_WEATHER = (
    "type: service\n{}category: 实用工具\nkeywords:\n  - 天气\n  - weather\n  - 查询\ndomain: utilities\n"
    "permissions:\n  network: true\n  filesystem: none\ncacheable: true\nttl: 300\n"
)
_TOOL = (
    "protocol: abp\nabp:\n  kind: query\n  tools:\n    - name: getWeather\n      description: 获取指定城市的天气信息\n"
    "      parameters:\n        location: {type: string, required: true}\n"
    "        unit: {type: string, required: false, default: celsius}\n"
)
_CODE = (
    "\n# {0}\n\n## 代码\n\n```typescript\n"
    "export async function execute(parameters) {{\n  return {{ output: parameters }};\n}}\n```\n"
)


@pytest.mark.row("000-46", "000-50", "000-52", "000-55", "D-1", "D-20")
def test_the_documents_own_examples_come_out_complete(write: Write) -> None:
    for name, shown in (
        ("preference-recorder", "偏好记录器"),
        ("data-processor", "数据处理器"),
        ("user-profile-updater", "更新器"),
    ):
        folder = write(_example(name, shown, "记录用户偏好信息", "type: direct\n", _CODE.format(shown)), name)
    write(_example("weather-query", "天气查询", "查询指定城市的天气信息", _WEATHER.format("")), "weather-query")
    abp = write(_example("weather-abp", "天气查询", "查询指定城市的天气信息", _WEATHER.format(_TOOL)), "weather-abp")
    report = migrate_skills(folder.parent)
    assert [result.status for result in report.results] == ["migrated"] * 5
    assert [(result.status, result.issues) for result in validate_skills(folder.parent).results] == [("validated", ())] * 5
    after = read_front_matter((abp / "SKILL.md").read_bytes()).values
    assert (after["capabilities"], after["tags"]) == (["getWeather"], ["天气", "weather", "查询"])
    assert after["resources"] == {"entry": "./scripts/execute.ts"}
    assert after["security"]["network"] == "none"  # type: ignore[index, call-overload] # a mapping
    assert any("names no host" in issue for issue in report.results[-1].issues)


@pytest.mark.row("000-52", "000-20")
def test_hosts_that_are_given_or_known_are_written(write: Write) -> None:
    given = write(_example("given", "g", "G. Use when testing.", _WEATHER.format("")), "given")
    known = write(
        _example("known", "k", "K. Use when testing.", _WEATHER.format("config: {endpoint: 'https://api.example.com/v1?q'}\n")),
        "known",
    )
    migrate_skills(given.parent, hosts=["https://wttr.example"])
    for folder, hosts in ((given, ["https://wttr.example"]), (known, ["https://api.example.com"])):
        security = read_front_matter((folder / "SKILL.md").read_bytes()).values["security"]
        assert security["network_allowlist"] == hosts  # type: ignore[index, call-overload] # a mapping
    assert not (known / "scripts/execute.ts").exists()


@pytest.mark.row("000-47")
def test_only_folders_directly_below_are_looked_at(write: Write, tmp_path: Path) -> None:
    folder = write()
    nested = folder / "examples" / "inner"
    nested.mkdir(parents=True)
    (nested / "SKILL.md").write_text(OLD)
    (folder.parent / "notes").mkdir()
    assert [result.skill_name for result in migrate_skills(folder.parent).results] == ["greeter"]
    with pytest.raises(InvalidInput):
        migrate_skills(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"---\n- a list\n---\nx", "line 2: the front matter is not"),
        (b"---\nname: a\n---\n\xff\xfe", "UTF-8"),
        (b"no front matter\n```js\nfunction execute() {}\n```\n", "not be usable"),
        (b"---\nname: a\ntype: direct\n---\nno description\n", "not be usable"),
    ],
)
def test_what_cannot_be_migrated_fails_alone_and_stays_as_it_is(write: Write, data: bytes, why: str) -> None:
    good, bad = write(), write(name="bad")
    (bad / "SKILL.md").write_bytes(data)
    report = migrate_skills(good.parent)
    assert not report.ok
    results = {result.skill_name: result for result in report.results}
    assert (results["greeter"].status, results["bad"].status) == ("migrated", "failed")
    assert why in results["bad"].issues[0]
    assert [path.name for path in bad.iterdir()] == ["SKILL.md"]
    assert (bad / "SKILL.md").read_bytes() == data


def test_a_skill_of_today_that_instructs_models_is_left_alone(write: Write) -> None:
    code = "```python\nimport pypdf\n```\n\n```bash\nqpdf a.pdf\n```\n"
    text = f"---\nname: pdf\ndescription: Fills forms. Use when asked.\n---\n{code}"
    folder = write(text, "pdf")
    report = migrate_skills(folder.parent)
    assert (report.ok, report.results[0].status) == (True, "skipped")
    assert not validate_skills(folder.parent).ok
    assert (folder / "SKILL.md").read_text() == text
    assert [path.name for path in folder.iterdir()] == ["SKILL.md"]


def test_pipes_and_links_are_not_followed(write: Write, tmp_path: Path) -> None:
    folder = write(name="pipe")
    (folder / "SKILL.md").unlink()
    os.mkfifo(folder / "SKILL.md")
    for name in FOLDERS:
        (folder / name).mkdir()
    victim = write(name="victim")
    victim.rename(tmp_path / "victim")
    (folder.parent / "linked").symlink_to(tmp_path / "victim")
    for report in (migrate_skills(folder.parent), validate_skills(folder.parent)):
        assert [(result.skill_name, result.status) for result in report.results] == [("pipe", "failed")]
    assert [path.name for path in (tmp_path / "victim").iterdir()] == ["SKILL.md"]


def test_marks_and_line_ends_of_windows_are_read(write: Write) -> None:
    folder = write()
    (folder / "SKILL.md").write_bytes(b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode())
    assert migrate_skills(folder).ok
    assert (folder / "scripts/execute.ts").is_file()


def test_an_entry_that_is_there_is_kept_and_so_is_the_code_in_the_text(write: Write) -> None:
    folder = write(scripts__main_dot_ts="export async function execute() { return { output: 1 }; }\n")
    (result,) = migrate_skills(folder).results
    assert any("stays where it is" in issue for issue in result.issues)
    assert "const greeting" in (folder / "SKILL.md").read_text()
    assert parse_document((folder / "SKILL.md").read_bytes()).metadata.resources.entry == "scripts/main.ts"


def test_a_skill_that_was_cut_off_between_script_and_text_is_finished(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(METADATA_dot_yml="domain: social\n")
    real = os.replace

    def cut(source: Any, target: Any) -> None:
        if str(target).endswith("SKILL.md"):
            raise OSError(5, "cut off", str(target))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut)
        assert not migrate_skills(folder).ok
    assert (folder / "SKILL.md").read_text() == OLD
    assert migrate_skills(folder).ok
    assert "const greeting" not in (folder / "SKILL.md").read_text()
    assert (folder / "METADATA.yml.legacy").exists()


def test_a_script_never_lands_outside(write: Write, tmp_path: Path) -> None:
    folder = write(OLD.replace("config:", "resources: {entry: ../../evil.ts}\nconfig:"))
    (result,) = migrate_skills(folder).results
    assert any("leaves the skill" in issue for issue in result.issues)
    assert not (tmp_path / "evil.ts").exists()
    linked = write(name="linked")
    (tmp_path / "outside").mkdir()
    (linked / "scripts").symlink_to(tmp_path / "outside")
    assert not migrate_skills(linked).ok
    deep = write(OLD.replace("config:", "resources: {entry: scripts/a/b.ts}\nconfig:"), "deep")
    (deep / "scripts").symlink_to(tmp_path / "outside")
    assert not migrate_skills(deep).ok
    assert list((tmp_path / "outside").iterdir()) == []


_NAMES = st.from_regex(r"x_[a-z]{1,8}", fullmatch=True)
_VALUES = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=20) | st.integers(-9, 9) | st.booleans(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(_NAMES, inner, min_size=1, max_size=3),
    max_leaves=6,
)


@given(fields=st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_no_field_of_anybodys_own_is_lost(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]) -> None:
    from skillyard.document import new_document

    folder = tmp_path_factory.mktemp("one")
    text = new_document("one", "One. Use when testing.", "Do it.\n", extra={"type": "direct", **fields})
    (folder / "SKILL.md").write_text(text, "utf-8")
    before = read_front_matter(text.encode()).values
    assert migrate_skills(folder).ok
    after = read_front_matter((folder / "SKILL.md").read_bytes()).values
    assert {name: after.get(name) for name in before if before[name] not in (None, "")} == {
        name: value for name, value in before.items() if value not in (None, "")
    }
    assert migrate_skills(folder).results[0].status == "skipped"


SHOWN = """---
name: papers
description: Works with papers. Use when a paper is at hand.
type: static
resources: {references: [references/a.md]}
---

# Papers

```bash
pandoc paper.docx -o paper.md
```

```python
from papers import read


def shown() -> None:
    read("a")


def more() -> None:
    read("b")
```
"""


def test_code_that_a_skill_only_shows_stays_in_its_text(write: Write) -> None:
    folder = write(SHOWN, "papers")
    assert migrate_skills(folder).results[0].status == "migrated"
    assert migrate_skills(folder).results[0].status == "skipped"
    assert "is a placeholder" in (folder / "scripts/execute.ts").read_text()
    assert SHOWN.partition("---\n\n")[2].strip() in (folder / "SKILL.md").read_text()


@pytest.mark.row("D-22")
def test_shell_lines_are_a_script_only_where_the_text_says_so(write: Write) -> None:
    head = "---\nname: {}\ndescription: Lists. Use when testing.\ntype: direct\n---\n"
    shown = write(head.format("shown") + "# Lists\n\n```sh\nnpm install\n```\n", "shown")
    meant = write(head.format("meant") + "# Lists\n\n## Code\n\n```sh\nls\n```\n", "meant")
    migrate_skills(shown.parent)
    assert [path.name for path in (shown / "scripts").iterdir()] == ["execute.ts"]
    assert (meant / "scripts/execute.sh").read_text() == "ls\n"


def test_what_stays_in_the_text_stays_as_it_was_written(write: Write) -> None:
    kept = "```python\nimport a\n\n\ndef b() -> None: ...\n```\n"
    folder = write(OLD.replace("## 示例", f"## 另外\n\n{kept}\n## 示例"))
    migrate_skills(folder)
    assert kept in (folder / "SKILL.md").read_text()


async def test_an_indented_block_with_the_line_ends_of_windows_runs(write: Write) -> None:
    head = "---\nname: {}\ndescription: Counts. Use when testing.\ntype: direct\n---\n"
    python = "1. Step\n\n   ```py\n   def execute(p):\n       return {'output': p['n'] + 1}\n   ```\n"
    folder = write(name="counts")
    (folder / "SKILL.md").write_bytes((head.format("counts") + python).replace("\n", "\r\n").encode())
    assert migrate_skills(folder).ok
    assert (folder / "scripts/execute.py").read_bytes() == b"def execute(p):\n    return {'output': p['n'] + 1}\n"
    run = await Catalog.discover(roots=[folder.parent], cache=False).run("counts", {"n": 1}, timeout_ms=20_000)
    assert (run.error, run.output) == (None, 2)


def test_a_skill_without_code_is_migrated_once(write: Write) -> None:
    folder = write("---\nname: plain\ntype: direct\ndescription: Plain. Use when testing.\n---\nDo it.\n", "plain")
    assert migrate_skills(folder).results[0].status == "migrated"
    (result,) = migrate_skills(folder).results
    assert (result.status, result.issues) == ("skipped", ("already canonical",))
    assert len(list(folder.glob("SKILL.md.backup.*"))) == 1


@pytest.mark.parametrize("ending", ["js", "py"])
def test_a_script_that_is_there_is_never_overwritten(write: Write, ending: str) -> None:
    code = {"js": "function execute() { return {output: 1}; }", "py": "def execute(p):\n    return {'output': 1}"}[ending]
    text = f"---\nname: mine\ndescription: Mine. Use when testing.\n---\n```{ending}\n{code}\n```\n"
    folder = write(text, "mine")
    (folder / "scripts").mkdir()
    (folder / f"scripts/execute.{ending}").write_text("mine\n")
    (result,) = migrate_skills(folder).results
    assert (folder / f"scripts/execute.{ending}").read_text() == "mine\n"
    assert any("stays where it is" in issue for issue in result.issues)


@pytest.mark.row("D-22")
def test_values_of_another_shape_are_kept_below_metadata(write: Write) -> None:
    text = (
        "---\nname: odd\ndescription: Odd. Use when testing.\nsecurity: strict\nresources: [a.md]\ntags: {a: 1}\n"
        "metadata: {team: web}\n---\nx\n"
    )
    folder = write(text, "odd")
    assert migrate_skills(folder, backup=False).ok
    kept = read_front_matter((folder / "SKILL.md").read_bytes()).values["metadata"]
    assert kept == {"team": "web", "legacy": {"security": "strict", "resources": ["a.md"], "tags": {"a": 1}}}
    evil = write(OLD.replace("config:", "resources: {entry: ../../evil.ts}\nconfig:"), "evil")
    migrate_skills(evil, backup=False)
    fields = read_front_matter((evil / "SKILL.md").read_bytes()).values
    assert fields["metadata"] == {"legacy": {"resources": {"entry": "../../evil.ts"}}}


@pytest.mark.row("000-54")
@pytest.mark.parametrize("line", ["# a thought", "tags: [a]  # a thought", "display-name: Other"])
def test_what_has_no_place_in_the_new_text_keeps_its_backup_whatever_was_asked(write: Write, line: str) -> None:
    folder = write(f"---\nname: said\ndescription: Said. Use when testing.\ndisplayName: One\n{line}\n---\nx\n", "said")
    (result,) = migrate_skills(folder, backup=False).results
    assert result.status == "migrated"
    (kept,) = folder.glob("SKILL.md.backup.*")
    assert line in kept.read_text()
    assert "keep SKILL.md as SKILL.md.backup.<milliseconds>" in result.details


@pytest.mark.row("000-49")
def test_both_metadata_files_are_read_and_put_away(write: Write) -> None:
    folder = write(METADATA_dot_yml="domain: a\n", METADATA_dot_yaml="domain: b\nttl: 5\n")
    (result,) = migrate_skills(folder).results
    fields = read_front_matter((folder / "SKILL.md").read_bytes()).values
    assert (fields["domain"], fields["ttl"]) == ("a", 5)
    assert any("domain" in issue and "METADATA.yaml" in issue for issue in result.issues)
    assert sorted(path.name for path in folder.glob("METADATA*")) == ["METADATA.yaml.legacy", "METADATA.yml.legacy"]
    assert migrate_skills(folder).results[0].status == "skipped"


@pytest.mark.parametrize("text", ["", "\n# nothing yet\n", "---\n", "# about\n---\ndomain: a\n...\n", "---\ndomain: a\n---\n"])
def test_metadata_with_little_in_it_holds_nothing_up(write: Write, text: str) -> None:
    folder = write(METADATA_dot_yml=text)
    assert migrate_skills(folder).ok
    assert read_front_matter((folder / "SKILL.md").read_bytes()).values["domain"] == ("a" if "domain" in text else "general")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("domain: a\n---\nttl: 5\n", "METADATA.yml, line 2: a second YAML document begins"),
        ("\n---\ndomain: a\ndomain: b\n", "METADATA.yml, line 4: the key `domain` is on line 3 and again on line 4"),
        ("- a\n", "METADATA.yml, line 1: "),
        ("a: " + "[" * 5000, "METADATA.yml, line 1: "),
    ],
)
def test_a_broken_metadata_file_is_named_with_its_line_and_nothing_is_touched(write: Write, text: str, why: str) -> None:
    folder = write(METADATA_dot_yml=text)
    (result,) = migrate_skills(folder, backup=False).results
    assert result.status == "failed"
    assert result.issues[0].startswith(why)
    assert sorted(path.name for path in folder.iterdir()) == ["METADATA.yml", "SKILL.md"]


def test_an_entry_that_is_declared_and_missing_is_kept_and_reported(write: Write) -> None:
    folder = write(
        "---\nname: gone\ndescription: Gone. Use when testing.\nresources: {entry: scripts/run.py}\n---\nx\n", "gone"
    )
    (result,) = migrate_skills(folder).results
    assert any("the file `scripts/run.py` is not there" in issue for issue in result.issues)
    assert migrate_skills(folder).results[0].status == "skipped"


class _Killed(BaseException):
    """What ends a process at once."""


@pytest.mark.row("000-46", "D-1")
def test_a_migration_may_end_at_any_step_and_the_next_one_finishes_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(METADATA_dot_yml="domain: social\n")
    migrate_skills(whole)
    after = (whole / "SKILL.md").read_bytes()
    step, ended = 0, False
    while not ended:
        step += 1
        folder = tmp_path / str(step) / "greeter"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(OLD, "utf-8")
        (folder / "METADATA.yml").write_text("domain: social\n")
        with monkeypatch.context() as patch:
            _kill_at(patch, step)
            try:
                ended = migrate_skills(folder).ok
            except _Killed:
                assert (folder / "SKILL.md").read_bytes() in (OLD.encode(), after)
        assert migrate_skills(folder).ok
        assert (folder / "SKILL.md").read_bytes() == after
        assert (folder / "METADATA.yml.legacy").read_text() == "domain: social\n"
        assert (folder / "scripts/execute.ts").read_bytes() == (whole / "scripts/execute.ts").read_bytes()
        assert any(kept.read_text("utf-8") == OLD for kept in folder.glob("SKILL.md.backup.*"))
    assert step > 6  # three folders, the script, the backup, SKILL.md, METADATA.yml


def _kill_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """End at the given one of the calls that change the disk, before it does anything."""
    calls = iter(range(1, 100))

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(calls) == step:
                raise _Killed
            return real(*args, **options)

        return call

    for name in ("mkdir", "replace", "rename", "unlink"):
        patch.setattr(os, name, wrap(getattr(os, name)))
