"""Counts what is in a text; the rules are in references/how-it-counts.md."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
WORD = re.compile(rf"\d+(?:[.,]\d+)+|[^\W_{CJK}]+(?:['’.\-][^\W_{CJK}]+)*")
CJK_CHARACTER = re.compile(f"[{CJK}]")
SENTENCE_END = re.compile(r"(?<!\b\w)[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+[”’」』）]*")
PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
COMMON_WORDS = """
    a an and are as at be but by for from has have he her his i in is it its not of on or she so that the their them they this
    to was we were will with you your
    的 了 是 在 和 有 我 不 他 她 它 们 这 那 一 也 就 都 而 与
"""
COMMON = frozenset(COMMON_WORDS.split())


def execute(parameters: dict, context: dict | None = None, config: dict | None = None) -> dict:
    text = parameters["text"].replace("\r\n", "\n")
    top = parameters.get("top", 5)
    speed = parameters.get("words_per_minute", 220)
    return {"output": measure(text, top=top, words_per_minute=speed), "format": "object", "status": "success"}


def measure(text: str, *, top: int, words_per_minute: int) -> dict:
    words = WORD.findall(text)
    cjk = CJK_CHARACTER.findall(text)
    paragraphs = [block for block in PARAGRAPH_END.split(text) if block.strip()]
    minutes = len(words) / words_per_minute + len(cjk) / (2 * words_per_minute)
    return {
        "characters": len(text),
        "characters_without_spaces": len("".join(text.split())),
        "words": len(words) + len(cjk),
        "cjk_characters": len(cjk),
        "sentences": sum(count_sentences(paragraph) for paragraph in paragraphs),
        "lines": len(text.splitlines()),
        "paragraphs": len(paragraphs),
        "reading_minutes": math.ceil(minutes * 10) / 10,
        "average_word_length": round(sum(map(len, words)) / len(words), 2) if words else 0,
        "top_words": most_frequent(words + cjk, top),
    }


def count_sentences(paragraph: str) -> int:
    """The pieces between sentence ends that hold a word; a last sentence needs no full stop."""
    return sum(bool(re.search(r"\w", piece)) for piece in SENTENCE_END.split(paragraph))


def most_frequent(words: list[str], top: int) -> list[dict]:
    counts = Counter(word.casefold() for word in words)
    kept = [(word, count) for word, count in counts.items() if word not in COMMON and (len(word) > 1 or not word.isascii())]
    kept.sort(key=lambda pair: (-pair[1], pair[0]))
    return [{"word": word, "count": count} for word, count in kept[:top]]


if __name__ == "__main__":  # in an agent that only has a command line: python scripts/execute.py < input.json
    json.dump(execute(json.load(sys.stdin))["output"], sys.stdout, ensure_ascii=False, indent=2)
    print()
