"""Conversions between Anthropic, Codex and Semibot manifests, and the inference of category, tags and entry.

Plain data in, plain data out, exactly the fields each format has. The inferences are tables: the same words always give the
same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from skillyard.document import Metadata, read_front_matter
from skillyard.errors import FileProblem, InvalidManifest
from skillyard.paths import read_inside
from skillyard.plain_json import read_json
from skillyard.text import shorten, single_line

ENTRIES: Final = (
    *("main.py", "main.js", "main.ts", "index.py", "index.js", "index.ts", "run.py", "run.js"),
    *("execute.ts", "execute.py", "execute.js", "execute.mjs", "execute.sh"),
)
"""The names an entry in `scripts/` may have, best first."""

# Each word counts for one category. Where two categories score the same, the earlier one wins.
_CATEGORIES: Final[Mapping[str, str]] = {
    "productivity": "edit editor text write writing writer document documents doc docs docx word note notes "
    "notebook task tasks "
    "todo calendar schedule meeting organize office "
    "spreadsheet spreadsheets excel xlsx powerpoint pptx slides presentation "
    "presentations pdf template format formatting 文档 编辑 写作 办公 日程 笔记 表格",
    "development": "code coding program programming developer debug debugging test testing tests git github "
    "api apis build compile "
    "lint refactor typescript javascript python "
    "rust java sdk mcp cli webapp frontend backend sql database framework library "
    "package repository 代码 编程 开发 测试 数据库",
    "data": "data csv json dataset datasets analysis analyze analytics statistics statistical chart charts "
    "plot metrics query etl "
    "pandas table tables processor 数据 分析 统计 图表",
    "design": "design designer image images photo art artistic color colors theme themes font fonts typography brand "
    "branding canvas "
    "gif animation video audio visual ui ux logo poster 设计 图片 图像 视频 音频 主题",
    "communication": "message messages chat slack email mail newsletter translate translation translator "
    "social comms announcement "
    "communication communications post tweet 消息 邮件 翻译 通知",
    "research": "search research web crawl crawler scrape scraper browser paper papers citation literature arxiv wiki "
    "encyclopedia 搜索 研究 论文 检索",
    "security": "security secure auth authentication password encryption vulnerability vulnerabilities secret secrets pentest "
    "audit oauth firewall 安全 加密 漏洞",
    "operations": "deploy deployment monitor monitoring kubernetes docker cloud server servers infrastructure "
    "log logs aws azure "
    "terraform devops backup 部署 监控 运维",
    "finance": "finance financial invoice payment payments budget tax accounting stock stocks price prices trading crypto bank "
    "财务 金融 发票 支付",
    "utilities": "weather time clock timer convert converter calculator calculate unit units random dice qr "
    "天气 时间 计算 转换 实用工具",
}
_IDEOGRAPH: Final = re.compile(r"[\u3400-\u9fff]")
_WORDS: Final[Mapping[str, str]] = {
    word: category for category, words in reversed(list(_CATEGORIES.items())) for word in words.split() if word.isascii()
}
_IDEOGRAPHIC_WORDS: Final = tuple(
    (word, category) for category, words in _CATEGORIES.items() for word in words.split() if not word.isascii()
)
_LATIN: Final = re.compile(r"[a-z0-9]+")
_TOKEN: Final = re.compile(r"[^\W_]+")
_FILLERS: Final = "a an and the of for to in on with by from or my your our new skill skills tool tools helper agent"
_SAYS_NOTHING: Final = frozenset(_FILLERS.split())
_NAME_WEIGHT: Final = 3  # what a skill is called weighs more than what it is described with
_MOST_TAGS: Final = 10
_LONGEST_TAG: Final = 30


def infer_category(manifest: Mapping[str, object]) -> str | None:
    """The category that most words of the manifest speak for; None when none does.

    >>> infer_category({"name": "Text Editor", "trigger_keywords": ["edit", "text", "modify"]})
    'productivity'
    """
    scores = dict.fromkeys(_CATEGORIES, 0)
    for text, weight in _weighed(manifest):
        for category in _categories_of(text.lower()):
            scores[category] += weight
    best = max(scores, key=lambda category: scores[category])
    return best if scores[best] else None


def _weighed(manifest: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name in ("skill_id", "name", "display_name", "trigger_keywords", "keywords", "tags", "capabilities", "description"):
        value = manifest.get(name)
        texts = value if isinstance(value, list | tuple) else [value]
        for text in texts:
            if isinstance(text, str):
                yield text, 1 if name == "description" else _NAME_WEIGHT


def _categories_of(text: str) -> Iterator[str]:
    for word in dict.fromkeys(_LATIN.findall(text)):
        if word in _WORDS:
            yield _WORDS[word]
    if _IDEOGRAPH.search(text):
        yield from (category for part, category in _IDEOGRAPHIC_WORDS if part in text)


def infer_tags(manifest: Mapping[str, object]) -> list[str]:
    """The words of the id, else of the name, else the trigger keywords: at most 10, without those that say nothing.

    >>> infer_tags({"skill_id": "text-editor", "name": "Text Editor"})
    ['text', 'editor']
    """
    for name in ("skill_id", "name", "trigger_keywords", "keywords"):
        value = manifest.get(name)
        texts = value if isinstance(value, list | tuple) else [value]
        words = [word for text in texts if isinstance(text, str) for word in _TOKEN.findall(text.rpartition("/")[2].lower())]
        tags = dict.fromkeys(word for word in words if word not in _SAYS_NOTHING and len(word) <= _LONGEST_TAG)
        if tags:
            return list(tags)[:_MOST_TAGS]
    return []


def infer_entry(folder: str | Path) -> str | None:
    """The entry in a package's `scripts/` by its name, as a path relative to the package; None when there is none."""
    scripts = Path(folder, "scripts")
    return next((f"scripts/{name}" for name in ENTRIES if (scripts / name).is_file()), None)


SHARED_FIELDS: Final = (
    *("skill_id", "version", "name", "description", "trigger_keywords", "author", "homepage", "documentation"),
)
"""The eight fields that all three formats have, in the order of an Anthropic manifest."""
_SEMIBOT_ORDER: Final = ("skill_id", "name", "version", *SHARED_FIELDS[3:])
_OWN_FIELDS: Final = ("license", "repository", "icon_url", "tools", "config", "anthropic", "container")
_FILE_LIMIT: Final = 1024 * 1024


ManifestFormat = Literal["anthropic", "codex", "semibot"]


def format_of_manifest(manifest: Mapping[str, object]) -> ManifestFormat:
    """Which of the three formats a manifest has, by the fields that only one of them has."""
    if "container" in manifest and "anthropic" not in manifest and "entry" not in manifest:
        return "anthropic"
    return "semibot" if {"category", "tags", "entry", "tools", "anthropic", "config"} & manifest.keys() else "codex"


def convert_manifest(manifest: Mapping[str, object], to: ManifestFormat) -> dict[str, Any]:
    """A manifest of any of the three formats in another; unchanged in its own."""
    before = format_of_manifest(manifest)
    if before == to:
        return dict(manifest)
    if to == "anthropic":
        return convert_semibot_to_anthropic(manifest)
    if to == "codex":
        return convert_semibot_to_codex(manifest)
    whole = convert_anthropic_to_semibot(manifest)
    return whole if before == "anthropic" else _without_empty({**whole, "anthropic": None})


def convert_anthropic_to_semibot(manifest: Mapping[str, object]) -> dict[str, Any]:
    """An Anthropic manifest as a Semibot one, with its category and tags inferred."""
    shared = {name: manifest.get(name) for name in _SEMIBOT_ORDER}
    reference = {"type": "anthropic", "skill_id": manifest.get("skill_id"), "version": manifest.get("version")}
    return _without_empty(
        {
            **shared,
            "anthropic": _without_empty(reference),
            "container": manifest.get("container"),
            "category": infer_category(manifest),
            "tags": infer_tags(manifest),
        }
    )


def convert_semibot_to_anthropic(manifest: Mapping[str, object]) -> dict[str, Any]:
    """A Semibot manifest as an Anthropic one."""
    shared = {name: manifest.get(name) for name in SHARED_FIELDS}
    anthropic = manifest.get("anthropic")
    kind = anthropic.get("type") if isinstance(anthropic, Mapping) else None
    reference = {"type": kind or "custom", "skill_id": manifest.get("skill_id"), "version": manifest.get("version")}
    return _without_empty({**shared, "container": manifest.get("container") or {"skills": [_without_empty(reference)]}})


def convert_semibot_to_codex(manifest: Mapping[str, object]) -> dict[str, Any]:
    """The fields of a Semibot manifest that a Codex package has, in its SKILL.md or its manifest.json."""
    return _without_empty({name: manifest.get(name) for name in SHARED_FIELDS})


def convert_anthropic_to_codex(manifest: Mapping[str, object]) -> dict[str, Any]:
    """The fields of an Anthropic manifest that a Codex package has."""
    return convert_semibot_to_codex(convert_anthropic_to_semibot(manifest))


def convert_codex_to_anthropic(folder: str | Path) -> dict[str, Any]:
    """A Codex package as an Anthropic manifest.

    Raises:
        FileMissing, InvalidManifest: as `convert_codex_to_semibot`.
    """
    return convert_semibot_to_anthropic(convert_codex_to_semibot(folder))


def convert_codex_to_semibot(folder: str | Path, *, skill_md_first: bool = False) -> dict[str, Any]:
    """The Semibot manifest of a Codex package: manifest.json first, field by field, then SKILL.md.

    With `skill_md_first` it is the other way round, as an install has it. The entry, the icon and the configuration come from
    their files when no field names them.

    Raises:
        FileMissing: there is no SKILL.md.
        FileProblem: a file cannot be read.
        InvalidManifest: manifest.json is not a JSON object.
    """
    front_matter = read_front_matter(read_inside(folder, "SKILL.md", limit=_FILE_LIMIT))
    texts, values = front_matter.texts, front_matter.values
    manifest = read_manifest_file(folder) if Path(folder, "manifest.json").exists() else {}

    def either(name: str, here: Mapping[str, object] = texts) -> Any:
        first, second = (here, manifest) if skill_md_first else (manifest, here)
        return first.get(name) or second.get(name)

    merged = {name: either(name) for name in _SEMIBOT_ORDER}
    own = {name: either(name, values) for name in _OWN_FIELDS}
    icon = "assets/icon.png" if Path(folder, "assets/icon.png").is_file() else None
    return _without_empty(
        {
            **merged,
            "entry": either("entry") or infer_entry(folder),
            "category": either("category") or infer_category(merged),
            "tags": either("tags") or infer_tags(merged),
            **own,
            "icon_url": own["icon_url"] or icon,
            "config": own["config"] or _configuration(folder),
        }
    )


def _configuration(folder: str | Path) -> Mapping[str, object] | None:
    """`scripts/config.yaml` as data, when it is there and a mapping."""
    try:
        data = read_inside(folder, "scripts/config.yaml", limit=_FILE_LIMIT)
    except FileProblem:
        return None
    return read_front_matter(b"---\n" + data.rstrip() + b"\n---\n").values or None


_COMPARED: Final = ("name", "version", "description", "author", "category", "license", "entry")


def manifest_differences(manifest_name: str, manifest: Mapping[str, object], metadata: Metadata) -> Iterator[str]:
    """One sentence for each field that a manifest says otherwise than SKILL.md; SKILL.md counts, in all we make of a skill."""
    for name in _COMPARED:
        said, written = manifest.get(name), getattr(metadata, name)
        if said and written and str(said) != str(written):
            yield (
                f"{manifest_name} says {name} {shorten(single_line(str(said)), 80)!r}, "
                f"SKILL.md says {shorten(single_line(str(written)), 80)!r}: SKILL.md counts"
            )


def read_manifest_file(folder: str | Path) -> dict[str, object]:
    """The JSON object in a package's manifest.json.

    Raises:
        FileProblem: it cannot be read.
        InvalidManifest: it is not JSON, or not an object.
    """
    return parse_object(read_inside(folder, "manifest.json", limit=_FILE_LIMIT), "manifest.json")


def parse_object(data: bytes, name: str) -> dict[str, object]:
    """The JSON object in some bytes; `name` is the file in messages.

    Raises:
        InvalidManifest: they are not JSON, or not an object.
    """
    try:
        value = read_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise InvalidManifest(
            f"{name} cannot be read as JSON: {error}", hint="fix it where the message says", problems=[]
        ) from None
    if not isinstance(value, dict):
        raise InvalidManifest(f"{name} does not hold an object", hint='a manifest begins with "{"', problems=[])
    return value


def json_bytes(value: Mapping[str, object]) -> bytes:
    """The bytes of a JSON file as it is written for people."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _without_empty(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], ())}
