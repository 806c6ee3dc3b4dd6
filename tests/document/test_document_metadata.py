"""Typed metadata: every field, every spelling, and what a value of the wrong type does."""

from __future__ import annotations

import pytest

from skillyard.document import Document, Metadata, Resources, Security, ToolDeclaration, Triggers, parse_document, summarize


def read(header: str, *, folder: str = "pdf") -> Document:
    data = f"---\nname: pdf\ndescription: Reads PDFs.\n{header}\n---\nbody\n".encode()
    document = parse_document(data, directory_name=folder)
    summary = summarize(data, directory_name=folder)
    metadata = document.metadata
    assert (summary.kind, summary.version, summary.display_name) == (metadata.kind, metadata.version, metadata.display_name)
    assert (summary.model_invocable, summary.has_entry) == (metadata.model_invocable, metadata.has_entry)
    assert (summary.keywords, summary.allowed_tools) == (metadata.search_words, metadata.allowed_tools)
    return document


def metadata(header: str) -> Metadata:
    document = read(header)
    assert document.usable
    assert [found.rule for found in document.diagnostics if found.severity != "info"] == []
    return document.metadata


def test_without_optional_fields_every_field_has_its_default() -> None:
    plain = metadata("")
    assert plain.domain == "general"
    assert (plain.kind, plain.protocol, plain.cacheable, plain.ttl) == ("direct", "vcp", True, 3600)
    assert (plain.security, plain.resources, plain.triggers) == (Security(), Resources(), Triggers())
    assert (plain.version, plain.display_name, plain.abp, plain.input_schema) == (None, None, None, None)
    assert plain.declared == {"name", "description"}
    assert not plain.has_entry


@pytest.mark.row("000-8", "000-10", "000-14", "000-15", "000-24")
def test_texts_stay_as_written() -> None:
    read_fields = metadata(
        "displayName: PDF 助手\nversion: 1.10\ndomain: office\ncategory: 实用工具\n"
        "createdAt: 2024-01-01\nupdated_at: 2024-02-30\n"
        "loadingPriority: high\nestimatedTokens: 1200\nlicense: Apache-2.0\ncompatibility: Needs poppler"
    )
    assert (read_fields.display_name, read_fields.version) == ("PDF 助手", "1.10")
    assert (read_fields.domain, read_fields.category) == ("office", "实用工具")
    assert (read_fields.created_at, read_fields.updated_at) == ("2024-01-01", "2024-02-30")
    assert (read_fields.loading_priority, read_fields.estimated_tokens) == ("high", 1200)
    assert (read_fields.license, read_fields.compatibility) == ("Apache-2.0", "Needs poppler")


@pytest.mark.row("000-11")
@pytest.mark.parametrize("kind", ["direct", "service", "distributed", "static", "preprocessor", "internal"])
def test_the_six_types_are_known(kind: str) -> None:
    read_fields = metadata(f"type: {kind}")
    assert read_fields.kind == kind
    assert read_fields.has_entry
    assert read_fields.model_invocable is (kind != "internal")


@pytest.mark.row("000-11")
def test_an_unknown_type_is_taken_as_direct_and_noted() -> None:
    document = read("type: skill")
    assert document.metadata.kind == "direct"
    assert not document.metadata.has_entry
    assert [(found.rule, found.severity) for found in document.diagnostics] == [("type-unknown", "info")]


@pytest.mark.row("000-12", "000-16", "C-26")
def test_lists_take_a_lone_text_and_texts_with_commas() -> None:
    read_fields = metadata(
        "tags: pdf, forms\nkeywords: [PDF, 表单]\ntrigger_keywords: fill，sign\ncapabilities: summarize it, now"
    )
    assert read_fields.tags == ("pdf", "forms")
    assert read_fields.keywords == ("PDF", "表单")
    assert read_fields.trigger_keywords == ("fill", "sign")
    assert read_fields.capabilities == ("summarize it, now",)
    assert read_fields.search_words == ("PDF", "表单", "fill", "sign", "pdf", "forms")


@pytest.mark.row("000-13", "C-26")
@pytest.mark.parametrize("events", ["event_types", "eventTypes", "event-types"])
def test_triggers_are_read_in_every_spelling(events: str) -> None:
    header = f"triggers:\n  intents: [legal_review]\n  phrases: ['总结报告']\n  {events}: [abp.tool_request]\n  priority: 0.8"
    assert metadata(header).triggers == Triggers(("legal_review",), ("总结报告",), ("abp.tool_request",), 0.8)


@pytest.mark.row("000-13")
def test_older_forms_of_triggers_become_phrases() -> None:
    header = "triggers: [fill a form]\ntriggerPatterns:\n  - sign it\n  - {pattern: stamp it, confidence: 0.9}"
    assert metadata(header).triggers.phrases == ("fill a form", "sign it", "stamp it")
    assert metadata("triggers: {}").triggers == Triggers()


@pytest.mark.row("000-17", "C-20")
@pytest.mark.parametrize(
    ("given", "wanted"), [("input_schema", "output_schema"), ("inputSchema", "outputSchema"), ("input-schema", "output-schema")]
)
def test_schemas_are_data_in_every_spelling(given: str, wanted: str) -> None:
    read_fields = metadata(
        f"{given}:\n  type: object\n  properties: {{n: {{type: integer, minimum: 1}}}}\n{wanted}: {{type: string}}"
    )
    assert read_fields.input_schema == {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    assert read_fields.output_schema == {"type": "string"}


@pytest.mark.row("000-18", "000-19", "C-25")
def test_the_protocol_is_abp_when_declared_or_when_there_is_a_block() -> None:
    tool = {"name": "getWeather", "parameters": {"city": {"type": "string", "required": True}}}
    block = "abp:\n  kind: query\n  tools:\n    - name: getWeather\n      parameters: {city: {type: string, required: true}}"
    assert metadata(block).protocol == "abp"
    abp = metadata(block).abp
    assert abp is not None
    assert (abp.kind, abp.tools) == ("query", (tool,))
    assert metadata("protocol: ABP").protocol == "abp"
    assert metadata(block + "\nprotocol: vcp").protocol == "vcp"


@pytest.mark.row("000-19")
def test_an_abp_block_without_anything_usable_is_dropped_with_a_word() -> None:
    document = read("abp:\n  kind: dance\n  tools: [{description: nameless}]")
    assert document.metadata.abp is None
    assert document.metadata.protocol == "vcp"
    assert [(found.rule, found.line) for found in document.diagnostics] == [("field-value", 5), ("field-value", 6)]


@pytest.mark.row("000-20", "C-17")
def test_security_is_read_in_every_spelling() -> None:
    header = (
        "security:\n  timeoutMs: 5000\n  memory_mb: 128\n  network: allowlist\n  network-allowlist: [https://api.example.com]\n"
        "  filesystem: read-only\n  requires_filesystem: true\n  environment: {TZ: 'UTC', N: 1.0}"
    )
    security = metadata(header).security
    assert security == Security(
        5000, 128, "allowlist", ("https://api.example.com",), "read-only", True, {"TZ": "UTC", "N": "1.0"}
    )
    assert security.to_dict()["timeout_ms"] == 5000
    assert metadata("security: {requires_filesystem: false}").security.filesystem == "none"
    assert Security().to_dict() == {}


@pytest.mark.row("000-20")
@pytest.mark.parametrize(
    ("block", "left"),
    [
        ("network: [none, allowlist]", Security(network="none")),
        ("network: everything", Security(network="none")),
        ("filesystem: all", Security(filesystem="none")),
        ("timeout_ms: -1", Security()),
        ("memory_mb: lots", Security()),
        ("sudo: true", Security()),
    ],
)
@pytest.mark.abuse("G17")
def test_security_that_cannot_be_meant_falls_back_to_the_strictest(block: str, left: Security) -> None:
    document = read(f"security: {{{block}}}")
    assert document.usable
    assert document.metadata.security == left
    assert [(found.rule, found.line) for found in document.diagnostics] == [("security-invalid", 4)]


@pytest.mark.row("000-23", "C-17")
@pytest.mark.parametrize(
    ("block", "mapped"),
    [
        ("network: true, filesystem: none", Security(network="allowlist", filesystem="none")),
        ("network: false, filesystem: read", Security(network="none", filesystem="read-only")),
        ("filesystem: read-write", Security(filesystem="read-write")),
        (
            "network: true, externalApis: [https://a.example]",
            Security(network="allowlist", network_allowlist=("https://a.example",)),
        ),
    ],
)
def test_the_older_permissions_are_mapped_to_security(block: str, mapped: Security) -> None:
    document = read(f"permissions: {{{block}}}")
    assert document.metadata.security == mapped
    assert document.metadata.permissions is not None
    assert [(found.rule, found.severity) for found in document.diagnostics] == [("permissions-legacy", "info")]
    assert read(f"security: {{network: none}}\npermissions: {{{block}}}").metadata.security == Security(network="none")


@pytest.mark.row("000-21")
def test_resources_are_paths_inside_the_skill() -> None:
    header = (
        "resources:\n  entry: ./scripts/execute.ts\n  helpers: ['./scripts/helpers/math.ts']\n"
        "  references: [references//a.pdf]\n  assets: ./assets/report, final.docx"
    )
    assert metadata(header).resources == Resources(
        "scripts/execute.ts", ("scripts/helpers/math.ts",), ("references/a.pdf",), ("assets/report, final.docx",)
    )
    assert metadata("entry: scripts/main.py").resources.entry == "scripts/main.py"
    assert metadata("entry: scripts/main.py").has_entry


@pytest.mark.row("000-21", "D-21")
@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "~/x", "scripts/../../x", "a\\b"])
def test_a_resource_outside_the_skill_is_dropped_with_a_word(path: str) -> None:
    document = read(f"resources: {{entry: '{path}', helpers: ['{path}', ./ok.py]}}")
    assert document.usable
    assert document.metadata.resources == Resources(None, ("ok.py",))
    assert {found.rule for found in document.diagnostics} == {"resource-outside"}


@pytest.mark.row("000-22")
def test_the_result_cache_is_on_for_an_hour_unless_said_otherwise() -> None:
    assert metadata("cacheable: false\nttl: 300").cacheable is False
    assert metadata("cacheable: no\nttl: 300").ttl == 300
    document = read("ttl: 0")
    assert document.metadata.ttl == 3600
    assert [found.rule for found in document.diagnostics] == ["field-type"]


@pytest.mark.row("002-3", "002-4")
def test_the_fields_of_a_package_manifest_are_read() -> None:
    read_fields = metadata(
        "skill_id: acme/pdf\nauthor: Acme\nhomepage: https://a.example\ndocumentation: https://d.example\nicon_url: https://i.example\n"
        "repository: https://r.example\ntrigger_keywords: [pdf]\ncontainer: {skills: [{type: custom, skill_id: x}]}\n"
        "anthropic: {type: anthropic, skill_id: pdf}\ntools:\n  - {name: search, type: mcp, config: {url: x, n: 2}}\n  - Read"
    )
    assert (read_fields.skill_id, read_fields.author) == ("acme/pdf", "Acme")
    assert (read_fields.homepage, read_fields.documentation) == ("https://a.example", "https://d.example")
    assert (read_fields.icon_url, read_fields.repository) == ("https://i.example", "https://r.example")
    assert read_fields.tools == (ToolDeclaration("search", "mcp", {"url": "x", "n": 2}), ToolDeclaration("Read"))
    assert read_fields.container == {"skills": [{"type": "custom", "skill_id": "x"}]}
    assert read_fields.anthropic == {"type": "anthropic", "skill_id": "pdf"}


def test_the_fields_of_well_known_clients_are_read() -> None:
    read_fields = metadata("disable-model-invocation: true\nuser-invocable: false\nargument-hint: [file] \nmodel: fast")
    assert (read_fields.disable_model_invocation, read_fields.user_invocable) == (True, False)
    assert (read_fields.argument_hint, read_fields.model) == ("[file]", "fast")
    assert not read_fields.model_invocable


@pytest.mark.row("004-3", "C-20", "004-5")
@pytest.mark.parametrize("key", ["allowed-tools", "allowedTools", "allowed_tools"])
def test_allowed_tools_has_three_spellings(key: str) -> None:
    assert metadata(f"{key}: [exec_shell, read_file]").allowed_tools == ("exec_shell", "read_file")


def test_a_field_in_two_spellings_counts_once_and_is_reported() -> None:
    document = read("allowed-tools: Read\nallowed_tools: Write")
    assert document.metadata.allowed_tools == ("Read",)
    assert [(found.rule, found.line) for found in document.diagnostics] == [("field-repeated", 5)]


@pytest.mark.row("D-31", "003-2")
@pytest.mark.parametrize(
    "header",
    [
        "license: [MIT]",
        "version: {major: 1}",
        "tags: {a: b}",
        "keywords: [[a]]",
        "metadata: text",
        "security: strict",
        "resources: none",
        "triggers: {priority: 7}",
        "input_schema: string",
        "cacheable: maybe",
        "ttl: soon",
        "config: [1]",
        "allowed-tools: {Read: true}",
        "homepage: [a]",
        "displayName: {en: x}",
        "loadingPriority: urgent",
        "abp: yes",
    ],
)
def test_a_wrong_optional_field_never_rejects_the_skill(header: str) -> None:
    document = read(header)
    assert document.usable
    assert document.metadata.description == "Reads PDFs."
    (found,) = document.diagnostics
    assert found.rule in ("field-type", "field-value", "security-invalid")
    assert (found.severity, found.line) == ("warning", 4)
    assert found.fix


@pytest.mark.row("D-31")
def test_real_values_beyond_a_marketplaces_limits_are_no_reason_to_reject() -> None:
    header = f"license: {'Proprietary, see LICENSE.txt; ' * 3}\nhomepage: not-an-address\ntags: [{', '.join('abcdefghijklm')}]"
    assert len(metadata(header).tags) == 13


@pytest.mark.row("003-3", "D-4")
@pytest.mark.parametrize(
    ("header", "folder", "skill_id"),
    [
        ("name: PDF Miner\ndescription: d", "x", "pdf-miner"),
        ("description: d", "my-folder", "my-folder"),
        ("name: 天气查询\ndescription: d", "weather", "weather"),
        ("name: pdf\ndescription: d\nskill_id: acme/PDF Tools", "x", "acme-pdf-tools"),
    ],
)
@pytest.mark.abuse("G8")
def test_a_skill_has_a_storage_safe_id(header: str, folder: str, skill_id: str) -> None:
    assert parse_document(f"---\n{header}\n---\n".encode(), directory_name=folder).skill_id == skill_id


@pytest.mark.row("004-3")
def test_the_pdf_miner_of_the_fourth_document_loads() -> None:
    header = "name: PDF Miner\ndescription: Extract text & metadata from PDFs\nallowed-tools:\n  - exec_shell\n  - read_file"
    data = f"---\n{header}\n---\n\n# PDF Miner\n".encode()
    document = parse_document(data, directory_name="pdf-miner")
    assert document.usable
    assert document.metadata.name == "PDF Miner"
    assert document.metadata.description == "Extract text & metadata from PDFs"
    assert document.metadata.allowed_tools == ("exec_shell", "read_file")


@pytest.mark.row("001-1")
def test_the_first_example_of_the_second_document_loads() -> None:
    header = "name: skill-name\ndescription: 简要描述这个技能的功能\nallowed-tools: [Read, Write, Bash]    # 可选"
    data = f"---\n{header}\n---\n\n# 技能\n".encode()
    document = parse_document(data, directory_name="skill-name")
    assert document.diagnostics == ()
    assert document.metadata.allowed_tools == ("Read", "Write", "Bash")


@pytest.mark.row("000-6")
def test_a_metadata_file_put_in_front_of_a_body_reads_as_front_matter() -> None:
    legacy = "name: old\ndescription: From METADATA.yml.\nversion: 1.0.0\n"
    document = parse_document(f"---\n{legacy}---\n".encode() + b"# Old\n", directory_name="old")
    assert document.usable
    assert (document.metadata.description, document.body) == ("From METADATA.yml.", "# Old\n")
