"""Rules for the use of skills, to be pasted into the file in which an agent has its own rules."""

from __future__ import annotations

from typing import Final, Literal

from skillyard.errors import InvalidInput

_ENGLISH: Final = """\
## Using skills

A skill is a folder with instructions for one kind of task. Before you act on a request:

1. Call `skills_list` to see whether a skill fits it. Do this before you plan, search or write anything.
2. When one fits, call `skills_load` with its id and read its SKILL.md to the end.
3. Follow its steps in their order. Do not replace a step by what you would do without it.
4. Where it names `allowed-tools`, use only those tools until its task is done.
5. Read a file of the skill with `read_skill_file` only when a step names it; run its scripts with `run_skill`
   instead of writing your own.
6. When no skill fits, say so in half a sentence and go on without one. Never invent a skill.
"""
_CHINESE: Final = """\
## 使用技能

技能是一个文件夹，其中有针对某一类任务的说明。处理请求之前：

1. 先调用 `skills_list`，看是否有合适的技能；在计划、搜索或写任何内容之前就这样做。
2. 有合适的技能时，用它的 id 调用 `skills_load`，把 SKILL.md 读完。
3. 严格按照它的步骤依次执行，不要用自己的做法代替其中的步骤。
4. 如果它写明了 `allowed-tools`，完成任务之前只使用这些工具。
5. 只有步骤提到某个文件时，才用 `read_skill_file` 读取；它的脚本用 `run_skill` 运行，不要自己另写。
6. 没有合适的技能时，用半句话说明，然后继续。绝不要编造技能。
"""
_TEXTS: Final = {"en": _ENGLISH, "zh": _CHINESE}


def usage_guidance(language: Literal["en", "zh"] = "en") -> str:
    """The rules, in Markdown, ending in a line feed.

    Raises:
        InvalidInput: there are none in that language.
    """
    if language not in _TEXTS:
        raise InvalidInput(f"there is no guidance in {language!r}", hint=f"one of {', '.join(_TEXTS)}")
    return _TEXTS[language]
