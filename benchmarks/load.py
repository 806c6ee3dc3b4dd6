"""A minute of mixed load on a server: reads, nineteen of twenty, and installs, without one error or lost write.

`python benchmarks/load.py [--seconds 60] [--connections 16] [--workers 2] [--database-url URL]`. The connections ask as fast as
they are answered. At the end every skill whose installation was acknowledged must be there, its file as it was sent last.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import httpx2

LIMITS = "[server.limits]\nread = 1000000\nwrite = 1000000\ndownload = 1000000\n"
READS = ("/api/v1/catalog?limit=20", "/api/v1/skill-definitions?limit=20", "/api/v1/catalog/search?q=tidy+a+report")


def archive(name: str, text: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        packed.writestr(
            f"{name}/SKILL.md", f"---\nname: {name}\ndescription: Tidies a report. Use it under load.\n---\n{text}\n"
        )
    return stream.getvalue()


async def ask(client: httpx2.AsyncClient, until: float, number: int, kept: dict[str, str], answers: Counter[str]) -> None:
    """One connection: it reads, and installs a skill of its own in one of twenty requests."""
    chance = random.Random(number)
    while time.monotonic() < until:
        if chance.random() < 0.05:
            name, text = f"load-{number}-{chance.randrange(8)}", f"Text {chance.random()}."
            answer = await client.post(
                "/api/v1/skill-definitions/upload-create?force=true", files={"file": (f"{name}.zip", archive(name, text))}
            )
            if answer.status_code == 201:
                kept[name] = text
            answers[f"install {answer.status_code}"] += 1
        elif kept and chance.random() < 0.4:
            name = chance.choice(list(kept))
            answer = await client.get(f"/api/v1/skill-definitions/{name}/files/SKILL.md")
            answers[f"file {answer.status_code}"] += 1
        else:
            answer = await client.get(chance.choice(READS))
            answers[f"read {answer.status_code}"] += 1


async def load(address: str, seconds: float, connections: int) -> tuple[Counter[str], list[str]]:
    kept: dict[str, str] = {}
    answers: Counter[str] = Counter()
    limits = httpx2.Limits(max_connections=connections)
    async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60, limits=limits) as client:
        until = time.monotonic() + seconds
        await asyncio.gather(*(ask(client, until, number, kept, answers) for number in range(connections)))
        lost = []
        for name, text in kept.items():
            answer = await client.get(f"/api/v1/skill-definitions/{name}/files/SKILL.md")
            if answer.status_code != 200 or text not in answer.text:
                lost.append(name)
    return answers, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--database-url", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        Path(home, ".config/skillyard").mkdir(parents=True)
        Path(home, ".config/skillyard/skillyard.toml").write_text(LIMITS)
        settings = {"HOME": home, "SKILLYARD_HOME": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/.config"}
        settings |= {"SKILLYARD_DATABASE_URL": options.database_url} if options.database_url else {}
        command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--workers", options.workers]
        with (
            Path(home, "log").open("w+") as log,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home, env={**os.environ, **settings}
            ) as process,
        ):
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            answers, lost = asyncio.run(load(address, options.seconds, options.connections))
            process.send_signal(signal.SIGTERM)
            left = process.wait(60)
            log.seek(0)
            failures = [line for line in log if "Traceback" in line or " error " in line]
    asked = sum(answers.values())
    wrong = {what: many for what, many in answers.items() if what.split()[1] not in ("200", "201")}
    print(f"{asked:,} requests, {asked / options.seconds:,.0f} a second, by {options.connections} connections")
    for what, many in sorted(answers.items()):
        print(f"{what:16} {many:>10,}")
    print(f"errors {sum(wrong.values())}, lost writes {len(lost)}, failures in the log {len(failures)}, left with {left}")
    return int(bool(wrong or lost or failures or left not in (0, -signal.SIGTERM)))


if __name__ == "__main__":
    raise SystemExit(main())
