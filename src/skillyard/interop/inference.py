"""What a manifest does not say and can be told from the rest: category, tags, entry (rows 002-8 to 002-10, defect D-33).

Both inferences are tables: the same words always give the same answer, and nobody is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["ENTRIES", "infer_category", "infer_entry", "infer_tags"]

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
_PARTS: Final = tuple(
    (word, category) for category, words in _CATEGORIES.items() for word in words.split() if not word.isascii()
)
_LATIN: Final = re.compile(r"[a-z0-9]+")
_TOKEN: Final = re.compile(r"[^\W_]+")
_FILLERS: Final = "a an and the of for to in on with by from or my your our new skill skills tool tools helper agent"
_SAYS_NOTHING: Final = frozenset(_FILLERS.split())
_NAMED: Final = 3  # what a skill is called weighs more than what it is described with
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
                yield text, 1 if name == "description" else _NAMED


def _categories_of(text: str) -> Iterator[str]:
    for word in dict.fromkeys(_LATIN.findall(text)):
        if word in _WORDS:
            yield _WORDS[word]
    if _IDEOGRAPH.search(text):
        yield from (category for part, category in _PARTS if part in text)


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
