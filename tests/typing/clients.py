"""The tools as the packages of OpenAI and Anthropic take them: mypy reads this file, nothing runs it."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from skillyard import SkillTools


async def turn_of_openai(client: AsyncOpenAI, tools: SkillTools, messages: list[ChatCompletionMessageParam]) -> None:
    """One turn with OpenAI's client."""
    answer = await client.chat.completions.create(model="m", messages=messages, tools=tools.definitions())
    messages.extend(await tools.answer(answer.choices[0].message))


async def turn_of_anthropic(client: AsyncAnthropic, tools: SkillTools, messages: list[MessageParam]) -> None:
    """One turn with Anthropic's client."""
    answer = await client.messages.create(model="m", max_tokens=9, messages=messages, tools=tools.definitions("anthropic"))
    messages.extend(await tools.answer(answer))
