"""The richer profiles: what a manifest and a complete package are asked for, and the documents' own examples."""

from __future__ import annotations

import pytest

from skillyard.document import Diagnostic, Profile, check_document, parse_document

COMPLETE = """---
name: weather-query
displayName: 天气查询
description: 查询指定城市的天气信息
version: 1.0.0
type: service
capabilities: [query]
tags: [weather]
triggers: {intents: [weather]}
input_schema: {type: object}
output_schema: {type: object}
security: {network: none}
resources: {references: [./references/cities.md]}
---

# 天气查询

## 描述
## 参数
## 输出
## 执行步骤
## 示例
## 安全
"""


def found(text: str, profile: Profile, files: list[str] | None = None) -> list[Diagnostic]:
    return list(check_document(text.encode(), directory_name="weather-query", profile=profile, files=files))


def errors(text: str, profile: Profile, files: list[str] | None = None) -> list[str]:
    assert all(one.line >= 1 and one.fix for one in found(text, profile, files))
    return [one.rule for one in found(text, profile, files) if one.severity == "error"]


def with_field(line: str, text: str = COMPLETE) -> str:
    return text.replace("\ntype: service", f"\ntype: service\n{line}", 1)


@pytest.mark.row("C-3", "000-7", "000-9")
def test_a_complete_skill_has_no_findings_in_the_full_profile() -> None:
    assert found(COMPLETE, "full", ["SKILL.md", "references/cities.md"]) == []


@pytest.mark.row("000-10", "000-11", "000-12", "000-13", "000-17", "000-20", "000-21")
@pytest.mark.parametrize(
    "field",
    ["version", "type", "capabilities", "tags", "triggers", "input_schema", "output_schema", "security", "resources"],
)
def test_the_full_profile_names_each_required_field_that_is_missing(field: str) -> None:
    text = "\n".join(line for line in COMPLETE.split("\n") if not line.startswith(f"{field}:"))
    messages = [one.message for one in found(text, "full") if one.rule == "field-required"]
    assert messages == [f"`{field}` is missing"]
    assert errors(text, "standard") == []


@pytest.mark.row("000-26")
@pytest.mark.parametrize("section", ["描述", "参数", "输出", "执行步骤", "示例", "安全"])
def test_the_full_profile_names_each_required_section_that_is_missing(section: str) -> None:
    (one,) = found(COMPLETE.replace(f"## {section}\n", ""), "full")
    assert one.rule == "section-missing"
    assert section in one.message
    assert errors(COMPLETE.replace(f"## {section}\n", ""), "standard") == []


@pytest.mark.row("000-26", "000-27")
def test_sections_may_be_written_in_english_and_more_may_follow() -> None:
    english = COMPLETE.partition("# 天气查询")[0]
    for title in (
        "Overview",
        "Input parameters",
        "Output",
        "Steps",
        "Examples",
        "Security notes",
        "附录",
        "脚本说明",
        "资源说明",
    ):
        english += f"\n### {title}\ntext\n"
    assert found(english, "full") == []


@pytest.mark.row("000-26")
def test_a_heading_inside_code_is_no_section() -> None:
    assert errors(COMPLETE.replace("## 示例", "```\n## 示例\n```"), "full") == ["section-missing"]


@pytest.mark.row("000-25", "000-28")
def test_long_metadata_and_long_instructions_are_warned_about() -> None:
    long = COMPLETE.replace("查询指定城市的天气信息", "word " * 60) + "word " * 5001
    rules = {one.rule: one.severity for one in found(long, "full")}
    assert rules == {"metadata-too-long": "warning", "body-too-long": "warning"}


@pytest.mark.row("000-17")
def test_a_schema_has_to_be_json_schema_and_stays_in_the_file() -> None:
    broken = with_field("inputSchema: {type: 5}").replace("input_schema: {type: object}\n", "")
    assert errors(broken, "full") == ["schema-invalid"]
    remote = COMPLETE.replace("output_schema: {type: object}", "output_schema: {$ref: 'http://127.0.0.1:9/x'}")
    (one,) = found(remote, "full")
    assert "leaves the file" in one.message


@pytest.mark.row("000-10", "002-5")
@pytest.mark.parametrize("version", ["1.0", "1", "v1.0.0", "1.0.0+build", "20240101-120000"])
def test_a_version_is_three_numbers(version: str) -> None:
    text = COMPLETE.replace("version: 1.0.0", f"version: {version}")
    assert errors(text, "full") == ["version-format"]
    assert "version-format" in errors(text, "manifest")
    assert errors(text, "standard") == []
    assert errors(COMPLETE.replace("1.0.0", "1.0.0-beta.2"), "full") == []


@pytest.mark.row("002-4", "002-5")
def test_a_manifest_needs_an_id_a_name_and_a_version() -> None:
    assert errors(with_field("skill_id: acme/weather"), "manifest") == []
    missing = COMPLETE.replace("version: 1.0.0\n", "")
    assert [one.message for one in found(missing, "manifest")] == ["`skill_id` is missing", "`version` is missing"]


@pytest.mark.row("002-5", "C-16")
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("author: " + "a" * 101, "manifest-limit"),
        ("category: " + "c" * 51, "manifest-limit"),
        ("license: " + "l" * 51, "manifest-limit"),
        ("entry: scripts/" + "e" * 200, "manifest-limit"),
        ("trigger_keywords: [" + ", ".join(f"k{number}" for number in range(21)) + "]", "manifest-limit"),
        ("trigger_keywords: [" + "k" * 51 + "]", "manifest-limit"),
        ("homepage: example.com", "manifest-format"),
        ("documentation: ftp://example.com", "manifest-format"),
        ("icon_url: ./icon.png", "manifest-format"),
        ("repository: git@example.com:x", "manifest-format"),
        ("tools: [{name: x, type: shell}]", "manifest-format"),
        ("tools: [{name: " + "x" * 101 + ", type: mcp}]", "manifest-format"),
    ],
)
def test_a_manifest_has_limits_that_a_list_does_not_enforce(line: str, rule: str) -> None:
    text = with_field(f"skill_id: acme/weather\n{line}")
    assert errors(text, "manifest") == [rule]
    assert parse_document(text.encode(), directory_name="weather-query").usable


@pytest.mark.row("002-5")
@pytest.mark.parametrize(("line", "field"), [("name: " + "n" * 101, "name"), ("description: " + "d" * 1001, "description")])
def test_a_manifests_texts_are_limited(line: str, field: str) -> None:
    text = "\n".join(line if old.startswith(f"{field}:") else old for old in COMPLETE.split("\n"))
    assert errors(with_field("skill_id: x", text), "manifest") == ["manifest-limit"]


@pytest.mark.row("002-5", "D-3")
@pytest.mark.parametrize("skill_id", ["../../etc", "/abs", "a//b", "a b", "x" * 121, "a/./b"])
def test_a_skill_id_is_no_path(skill_id: str) -> None:
    assert errors(with_field(f"skill_id: {skill_id}"), "manifest")
    assert errors(with_field("skill_id: acme.io/team:weather-v1"), "manifest") == []


@pytest.mark.row("003-1", "C-1")
def test_a_manifest_json_is_never_required_and_only_warned_about() -> None:
    files = ["SKILL.md", "references/cities.md"]
    assert [one.rule for one in found(COMPLETE, "standard", files)] == []
    assert [(one.rule, one.severity) for one in found(COMPLETE, "standard", [*files, "manifest.json"])] == [
        ("manifest-json-ignored", "warning")
    ]


@pytest.mark.row("000-21", "C-2")
def test_files_that_are_named_have_to_be_there() -> None:
    text = COMPLETE.replace("type: service", "type: direct").replace(
        "{references: [./references/cities.md]}", "{entry: ./scripts/main.py, assets: [./assets]}"
    )
    assert errors(text, "full", ["SKILL.md", "scripts/main.py", "assets/a.png"]) == []
    assert errors(text, "full", ["SKILL.md"]) == ["scripts-missing", "resource-missing", "resource-missing"]
    assert errors(text, "standard", ["SKILL.md"]) == []


@pytest.mark.row("000-3", "000-5")
def test_code_outside_scripts_is_refused_by_the_full_profile_and_warned_about_elsewhere() -> None:
    files = ["SKILL.md", "references/cities.md", "scripts/a.py", "x/scripts/b.ts", "tests/t.py", "assets/page.js"]
    assert errors(COMPLETE, "full", files) == []
    for stray in ("tool.py", "lib/tool.TS", "references/run.sh"):
        (one,) = found(COMPLETE, "full", [*files, stray])
        assert (one.rule, one.severity) == ("code-outside-scripts", "error")
        assert stray in one.message
        assert [one.severity for one in found(COMPLETE, "standard", [*files, stray])] == ["warning"]


@pytest.mark.row("000-17")
@pytest.mark.parametrize("schema", ["[a, b]", "text", "{type: 5}"])
def test_an_input_schema_that_is_none_is_an_error_in_every_check(schema: str) -> None:
    text = COMPLETE.replace("input_schema: {type: object}", f"input_schema: {schema}")
    assert "schema-invalid" in errors(text, "standard")
    assert "schema-invalid" in errors(text, "full")


@pytest.mark.row("000-20")
def test_an_allow_list_without_hosts_is_an_error() -> None:
    text = COMPLETE.replace("network: none", "network: allowlist")
    assert text != COMPLETE
    for profile in ("standard", "full"):
        assert errors(text, profile) == ["network-hosts-missing"]


@pytest.mark.row("000-20")
def test_what_needs_files_may_not_be_kept_from_them() -> None:
    text = COMPLETE.replace("network: none", "filesystem: none, requires_filesystem: true")
    assert text != COMPLETE
    assert errors(text, "full") == ["security-invalid"]
    assert errors(text.replace("requires_filesystem: true", "requires_filesystem: false"), "full") == []


@pytest.mark.row("000-5", "D-11")
def test_relative_links_have_to_lead_to_files_of_the_skill() -> None:
    links = (
        "[a](references/cities.md#top) [b](./references/Cities.md) ![c](assets/none.png 'C') [d](../other/SKILL.md) "
        "[e](references/)\n"
        "[f](https://example.com/x.md) [g](#top) [h](url) `[i](code.md)` [j](<a b.md>) [k](/etc/passwd) [l](SKILL.md)\n"
        "```\n[m](block.md)\n```\n[n](mailto:a@example.com)\n[o](last.md)\n"
    )
    broken = [one for one in found(COMPLETE + links, "standard", ["references/cities.md"]) if one.rule == "link-broken"]
    said = [one.message.split("`")[1] for one in broken]
    assert said == ["references/Cities.md", "assets/none.png", "../other/SKILL.md", "a b.md", "last.md"]
    assert broken[0].fix == "write `references/cities.md`"
    assert broken[-1].line == (COMPLETE + links).count("\n")
    assert {one.severity for one in found(COMPLETE + links, "full", ["references/cities.md"])} == {"error"}


@pytest.mark.row("C-4", "D-20")
def test_code_inside_the_text_is_a_legacy_form() -> None:
    text = "---\nname: weather-query\ndescription: d\ntype: direct\n---\n## 代码\n\n```typescript\nrun();\n```\n"
    (one,) = [one for one in found(text, "full") if one.rule == "code-in-body"]
    assert (one.severity, one.line) == ("error", 8)
    assert [(one.rule, one.severity) for one in found(text, "standard")] == [("code-in-body", "warning")]


@pytest.mark.row("D-20", "000-26")
@pytest.mark.parametrize("title", ["preference-recorder", "data-processor", "user-profile-updater"])
def test_the_first_documents_own_examples_load_with_reports_of_what_they_lack(title: str) -> None:
    text = (
        f"---\nname: {title}\ndisplayName: 示例\ndescription: 记录用户偏好信息\nversion: 1.0.0\ntype: direct\n---\n\n"
        "# 示例\n\n## 描述\n\n文字。\n\n## 代码\n\n```typescript\nexport async function execute() {}\n```\n"
    )
    document = parse_document(text.encode(), directory_name=title)
    assert document.usable
    assert document.metadata.display_name == "示例"
    assert [one.rule for one in check_document(text.encode(), directory_name=title) if one.severity != "info"] == [
        "code-in-body"
    ]
    lacking = [one.rule for one in check_document(text.encode(), directory_name=title, profile="full")]
    assert lacking.count("section-missing") == 5
    assert lacking.count("field-required") == 7
    assert "code-in-body" in lacking


@pytest.mark.row("000-18", "000-19", "000-23")
def test_the_first_documents_weather_skill_loads_in_both_protocols() -> None:
    common = (
        "name: weather-query\ndisplayName: 天气查询\ndescription: 查询指定城市的天气信息\nversion: 1.0.0\ntype: service\n"
        "category: 实用工具\nkeywords:\n  - 天气\n  - weather\n  - 查询\ndomain: utilities\n"
        "permissions:\n  network: true\n  filesystem: none\ncacheable: true\nttl: 300\n"
    )
    abp = (
        "protocol: abp\nabp:\n  kind: query\n  tools:\n    - name: getWeather\n      description: 获取指定城市的天气信息\n"
        "      parameters:\n        unit:\n          type: string\n          required: false\n          default: celsius\n"
        "      returns:\n        type: object\n"
    )
    vcp = parse_document(f"---\n{common}---\n".encode(), directory_name="weather-query")
    assert vcp.usable
    assert (vcp.metadata.protocol, vcp.metadata.ttl, vcp.metadata.keywords) == ("vcp", 300, ("天气", "weather", "查询"))
    assert (vcp.metadata.security.network, vcp.metadata.security.filesystem) == ("allowlist", "none")
    document = parse_document(f"---\n{common}{abp}---\n".encode(), directory_name="weather-query")
    assert document.metadata.protocol == "abp"
    assert document.metadata.abp is not None
    (tool,) = document.metadata.abp.tools
    assert tool["parameters"] == {"unit": {"type": "string", "required": False, "default": "celsius"}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{$defs: {%s}, $ref: '#/$defs/a30'}", "more than 100,000 parts"),
        ("{type: nonsense}", "nonsense"),
        ("{$ref: '#', pattern: '(('}", "(("),
        ("{$ref: '#', pattern: '(a{1,1000}){1,1000}', type: no}", "no"),
    ],
)
def test_a_schema_is_read_within_bounds_and_what_is_wrong_with_it_is_said(schema: str, said: str) -> None:
    parts = "a0: {type: string}, " + ", ".join(
        f"a{level}: {{anyOf: [{{$ref: '#/$defs/a{level - 1}'}}, {{$ref: '#/$defs/a{level - 1}'}}]}}" for level in range(1, 31)
    )
    text = COMPLETE.replace("input_schema: {type: object}", f"input_schema: {schema.replace('%s', parts)}")
    (one,) = found(text, "full")
    assert one.rule == "schema-invalid"
    assert said in one.message


def test_a_schema_that_refers_to_itself_is_one() -> None:
    text = COMPLETE.replace("input_schema: {type: object}", "input_schema: {properties: {below: {$ref: '#'}}}")
    assert found(text, "full") == []
