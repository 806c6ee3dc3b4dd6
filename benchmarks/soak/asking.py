"""Clients of the site: they ask for runs, cancel some, install, and remember what was acknowledged to them."""

from __future__ import annotations

import asyncio
import io
import random
import time
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx2

from benchmarks.soak.plan import Plan

__all__ = ["Acknowledged", "archive", "ask"]

_PATIENCE_S = 60  # with one request, over all its repetitions
_AGAIN = frozenset({429, 500, 502, 503, 504})


@dataclass(slots=True)
class Acknowledged:
    """What clients were promised, and everything they were told.

    `runs` are ids by key, `installs` the text that each skill was installed with last, `perhaps` texts whose answer never came.
    `strange` are answers that no fault explains.
    """

    runs: dict[str, str] = field(default_factory=dict)
    installs: dict[str, str] = field(default_factory=dict)
    perhaps: dict[str, set[str]] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    strange: list[str] = field(default_factory=list)
    given_up: int = 0


async def ask(address: str, plan: Plan, number: int, reported: Acknowledged, stop: asyncio.Event) -> None:
    """One client: nineteen runs and one install of twenty requests, each repeated until it is answered, until told to stop."""
    chance = random.Random(f"{plan.seed}-{number}")
    timeout = httpx2.Timeout(10, connect=5)
    async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=timeout) as client:
        asked = 0
        while not stop.is_set():
            asked += 1
            if asked % 20 == 5:
                await _install(client, chance, number, asked, reported)
            else:
                await _run(client, chance, f"{plan.seed}-{number}-{asked}", reported)
            await asyncio.sleep(chance.random() * 0.1)


async def _run(client: httpx2.AsyncClient, chance: random.Random, key: str, reported: Acknowledged) -> None:
    skill = "pooled" if chance.random() < 0.7 else "here"
    parameters = {"number": key, "seconds": chance.choice((0, 0, 0, 0.2, 1)), "fails": chance.random() < 0.05}
    order = {"skill": skill, "parameters": parameters, "wait": chance.random() < 0.2}
    answer = await _until_answered(client, "run", reported, "/api/v1/runs", json=order, headers={"Idempotency-Key": key})
    if answer is None:
        return
    reported.runs[key] = str(answer.json()["data"]["run_id"])
    if chance.random() < 0.1:
        await _until_answered(client, "cancel", reported, f"/api/v1/runs/{reported.runs[key]}/cancel")


async def _install(client: httpx2.AsyncClient, chance: random.Random, number: int, asked: int, reported: Acknowledged) -> None:
    name, text = f"kept-{number}-{chance.randrange(4)}", f"Text {asked} of client {number}: {chance.random()}."
    reported.perhaps.setdefault(name, set()).add(text)
    files = {"file": (f"{name}.zip", archive(name, text))}
    answer = await _until_answered(client, "install", reported, "/api/v1/skill-definitions/upload-create", files=files)
    if answer is not None:
        reported.installs[name], reported.perhaps[name] = text, set()


async def _until_answered(
    client: httpx2.AsyncClient, what: str, reported: Acknowledged, path: str, **request: object
) -> httpx2.Response | None:
    """The answer of a request that was taken; None when it was refused, or not answered in a minute."""
    end, wait = time.monotonic() + _PATIENCE_S, 0.1
    while time.monotonic() < end:
        try:
            answer = await client.post(path, **request)  # type: ignore[arg-type]
        except httpx2.HTTPError as error:
            reported.answers[f"{what} {type(error).__name__}"] += 1
        else:
            reported.answers[f"{what} {answer.status_code}"] += 1
            if answer.is_success:
                return answer
            if answer.status_code == 500 or answer.status_code not in _AGAIN:
                reported.strange.append(f"{what} {answer.status_code}: {answer.text[:300]}")
            if answer.status_code not in _AGAIN:
                return None
        await asyncio.sleep(wait)
        wait = min(1.0, wait * 2)
    reported.given_up += 1
    return None


def archive(name: str, text: str, *, header: str = "", files: Mapping[str, str] | None = None) -> bytes:
    """A package of one skill."""
    said = f"---\nname: {name}\ndescription: Is installed in a soak. Use when nothing else does.\n{header}---\n{text}\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for path, content in {"SKILL.md": said, **(files or {})}.items():
            packed.writestr(f"{name}/{path}", content)
    return stream.getvalue()
