"""A minute of mixed load on a server: reads, nineteen of twenty, and uploads, without one error or lost write.

`python -m benchmarks.load [--seconds 60] [--connections 16] [--workers 2] [--database-url URL]` drives `wrk`, a package of
Debian. Its connections ask as fast as they are answered: that is the highest rate the server sustains beside it. At the
end every version whose upload was acknowledged must be there, with the digest that was told.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

SCRIPT = Path(__file__).with_name("load.lua")
SKILLS, UPLOADS, THREADS = 20, 6000, 2
API = "/api/v1/skill-definitions"


def body(number: int) -> bytes:
    """The form that uploads one version of one of the skills."""
    name, packed = f"load-{number % SKILLS}", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        header = f"---\nname: {name}\ndescription: Tidies a report. Use it under load.\n---\n"
        archive.writestr(f"{name}/SKILL.md", f"{header}Text {number}.\n")
        archive.writestr(f"{name}/references/words.md", "some words of a reference, " * 100)
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}.zip"\r\n\r\n'
    return head.encode() + packed.getvalue() + b"\r\n--edge--\r\n"


@contextlib.contextmanager
def server(home: Path, workers: str, url: str) -> Iterator[tuple[str, Path]]:
    """A server over an empty home: its address, and its log."""
    settings = {"HOME": str(home), "SKILLYARD_HOME": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/.config"}
    settings |= {"SKILLYARD_DATABASE_URL": url} if url else {}
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--workers", workers]
    log = home / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=home, env={**os.environ, **settings}
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"], log
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM)


def prepare(address: str, folder: Path) -> None:
    """Install the skills once, and write down what wrk is to send."""
    with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        form = {"Content-Type": "multipart/form-data; boundary=edge"}
        for number in range(SKILLS):
            client.post(f"{API}/upload-create", content=body(number), headers=form).raise_for_status()
    for number in range(UPLOADS):
        (folder / str(number)).write_bytes(body(number + SKILLS))


def load(address: str, folder: Path, seconds: int, connections: int) -> dict[str, Any]:
    """What wrk counted."""
    options = [f"-d{seconds}s", f"-c{connections}", f"-t{THREADS}", "--timeout", "30s", "--latency"]
    command = ["wrk", *options, "-s", str(SCRIPT), address, "--", str(folder), str(THREADS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def lost(address: str, accepted: list[list[str]]) -> list[str]:
    """The acknowledged versions that are recorded otherwise, or that cannot be read though they are still kept.

    Of each skill the newest versions are kept; an older one that is gone must be older than all of those.
    """
    missing = []
    with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        for skill in sorted({skill for skill, _, _ in accepted}):
            versions = {one["version"]: one for one in all_versions(client, skill)}
            kept = [version for version, one in versions.items() if not one["removed"]]
            for version, digest in [(version, digest) for of, version, digest in accepted if of == skill]:
                there = version in kept and client.get(f"{API}/{skill}/versions/{version}/files/SKILL.md").status_code == 200
                gone = version not in kept and version < min(kept, default="")
                if version not in versions or versions[version]["digest"] != digest or not (there or gone):
                    missing.append(f"{skill} {version}")
    return missing


def all_versions(client: httpx2.Client, skill: str) -> Iterator[dict[str, Any]]:
    """Every version that is recorded."""
    page, pages = 1, 1
    while page <= pages:
        answer = client.get(f"{API}/{skill}/versions", params={"limit": 200, "page": page}).json()
        yield from answer["data"]
        page, pages = page + 1, answer["meta"]["totalPages"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--database-url", default="")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        print("error: wrk is not installed\nhint: apt-get install wrk", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "uploads")
        folder.mkdir()
        with server(Path(home), options.workers, options.database_url) as (address, log):
            prepare(address, folder)
            counted = load(address, folder, options.seconds, options.connections)
            noted = [line.split() for file in folder.glob("acknowledged-*") for line in file.read_text().splitlines()]
            accepted = [line for line in noted if line[0] != "refused"]
            refused = [line for line in noted if line[0] == "refused"]
            missing = lost(address, accepted)
        failures = [line for line in log.read_text().splitlines() if "Traceback" in line or " error " in line]
    rate = counted["requests"] / counted["seconds"]
    print(f"{counted['requests']:,} requests in {counted['seconds']:.0f} s: {rate:,.0f} a second, {len(accepted):,} uploads")
    print(f"milliseconds: p50 {counted['p50']:.1f}, p99 {counted['p99']:.1f}, most {counted['most']:.0f}")
    for reason, many in Counter(" ".join(line) for line in refused).most_common(5):
        print(f"{many:>6} {reason}")
    wrong = counted["refused"] + counted["broken"]
    print(f"errors {wrong}, lost writes {len(missing)}, failures in the log {len(failures)}")
    return int(bool(wrong or missing or failures))


if __name__ == "__main__":
    raise SystemExit(main())
