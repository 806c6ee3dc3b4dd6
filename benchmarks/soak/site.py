"""The site: PostgreSQL, an S3 server, servers behind nginx, workers, and a wire between each of them and what it needs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from benchmarks.soak.parts import ClusterPart, Part, Program, free_port, skillyard
from benchmarks.soak.plan import Plan
from benchmarks.soak.relay import Relay

__all__ = ["POOL", "Site", "running_site"]

POOL = "soak"
ROOT = Path(__file__).parents[2]
_BUCKET = "soak"
_NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""
_COUNT = """
CREATE TABLE soak_changes (number bigserial, run_id text, was text, became text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION soak_note() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN INSERT INTO soak_changes (run_id, was, became) VALUES (NEW.id, OLD.state, NEW.state); RETURN NEW; END';
CREATE TRIGGER soak AFTER UPDATE OF state ON runs FOR EACH ROW EXECUTE FUNCTION soak_note();
"""
_SKILLS = {
    "pooled": f"type: distributed\nconfig:\n  serverId: {POOL}\n",
    "here": "type: direct\nresources:\n  entry: scripts/execute.py\n",
}
_SCRIPT = """
import json, sys, time
asked = json.load(sys.stdin)["input"]
time.sleep(asked.get("seconds", 0))
if asked.get("fails"):
    sys.exit(3)
write = {"ownerType": "user", "ownerId": "default/local user", "type": "fact", "importance": 3}
write["content"] = f"run {asked['number']} was here"
print(json.dumps({"output": {"number": asked["number"]}, "memoryWrites": [write]}))
"""


class Site:
    """All parts by name, the wires by the name of the part that hangs on them, and where things are."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.parts: dict[str, Part] = {}
        self.wires: dict[str, Relay] = {}
        self.address = ""
        self.database = ""
        self.store = f"s3://{_BUCKET}"
        self._store_port = free_port()

    @property
    def data(self) -> Path:
        """The home that the servers share."""
        return self.folder / "data"

    @property
    def scratch(self) -> Path:
        """Where every part makes its temporary files."""
        return self.folder / "tmp"

    def servers(self) -> list[Program]:
        """The servers."""
        return [part for name, part in self.parts.items() if name.startswith("server") and isinstance(part, Program)]

    def workers(self) -> list[Program]:
        """The workers."""
        return [part for name, part in self.parts.items() if name.startswith("worker") and isinstance(part, Program)]

    @property
    def numbers(self) -> set[str]:
        """The process numbers that servers and workers ever had."""
        return {str(number) for part in (*self.servers(), *self.workers()) for number in part.numbers}

    @property
    def cluster(self) -> ClusterPart:
        """PostgreSQL."""
        part = self.parts["postgresql"]
        assert isinstance(part, ClusterPart)
        return part

    def environment(self, name: str, home: Path) -> dict[str, str]:
        """The environment of a part that keeps its own things in `home`."""
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "PYTHONPATH")}
        place = self.folder / "homes" / name
        place.mkdir(parents=True, exist_ok=True)
        made = {
            "HOME": str(place),
            "SKILLYARD_HOME": str(home),
            "TMPDIR": str(self.scratch),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
        }
        if name in self.wires:
            made["SKILLYARD_DATABASE_URL"] = self.database_by(self.wires[name].port)
        if "store" in self.wires:
            made |= {"SKILLYARD_STORE": self.store, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.wires['store'].port}"}
            made |= {
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "soak",
                "AWS_SECRET_ACCESS_KEY": "soak",
                "AWS_REGION": "us-east-1",
            }
        return kept | made

    def database_by(self, port: int) -> str:
        """The URL of the database through a port."""
        return f"postgresql://skillyard@127.0.0.1:{port}/soak"

    async def build(self) -> None:
        """Make and start everything, one after the other, and install the skills that are going to run."""
        for folder in (self.folder, self.scratch):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # the users of sandboxes pass through
        await self._build_database()
        await self._build_store()
        for number in range(1, self.plan.servers + 1):
            await self._add(f"server{number}", self.data, "serve", "--json", "--port")
        await asyncio.gather(*(server.ready() for server in self.servers()))
        await self._build_proxy()
        for name, header in _SKILLS.items():
            await asyncio.to_thread(self._install, name, header)
        for number in range(1, self.plan.workers + 1):
            place = self.folder / f"worker{number}"
            await self._add(f"worker{number}", place, "worker", "--json", "--pool", POOL, "--concurrency", "2", "--grace", "20")

    async def _build_database(self) -> None:
        import psycopg

        port, place = free_port(), self.folder / "postgresql"
        place.mkdir()
        cluster = _postgresql().Cluster(place, "fsync=off", "max_connections=150", listen=port, clocked=True)
        await asyncio.to_thread(cluster.make)
        self.parts["postgresql"] = ClusterPart(cluster)
        await self.parts["postgresql"].start()
        self.database = self.database_by(port)
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE soak")
        for number in range(1, self.plan.servers + 1):
            self.wires[f"server{number}"] = await Relay(port).open()
        for number in range(1, self.plan.workers + 1):
            self.wires[f"worker{number}"] = await Relay(port).open()
        from skillyard.database import Database

        await asyncio.to_thread(lambda: Database.open("", self.database).close())
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(_COUNT)

    async def _build_store(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._store_port)]
        environment = self.environment("store", self.folder)
        store = Program("store", command, log=self.folder / "store.log", environment=environment, port=self._store_port)
        self.parts["store"] = store
        await store.start()
        await store.ready()
        with urlopen(Request(f"http://127.0.0.1:{self._store_port}/{_BUCKET}", method="PUT"), timeout=30):
            self.wires["store"] = await Relay(self._store_port).open()

    async def _add(self, name: str, home: Path, *command: str) -> None:
        port = free_port()
        arguments = (*command, str(port)) if command[-1] == "--port" else command
        part = Program(
            name, skillyard(*arguments), log=self.folder / f"{name}.log", environment=self.environment(name, home), port=port
        )
        self.parts[name] = part
        await part.start()

    async def _build_proxy(self) -> None:
        port, text = free_port(), (ROOT / "deploy/compose/nginx.conf").read_text()
        places = "\n".join(f"    server 127.0.0.1:{server.port} max_fails=1 fail_timeout=1s;" for server in self.servers())
        text, swaps = re.subn(r"(?m)(?:^    server server-\d:8787.*\n)+", places + "\n", text)
        text, listens = re.subn(r"listen 8080;", f"listen 127.0.0.1:{port};", text)
        text, reported = re.subn(r"(?m)^ *proxy_set_header X-Forwarded-.*\n", "", text)  # else each request would need a key
        assert (swaps, listens, reported) == (1, 1, 2), "deploy/compose/nginx.conf has another form"
        place = self.folder / "nginx"
        place.mkdir()
        (place / "nginx.conf").write_text(_NGINX.format(folder=place, site=text))
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "nginx is not installed; `make system` installs it"
        command = [program, "-p", str(place), "-c", str(place / "nginx.conf")]
        environment = self.environment("nginx", self.folder)
        proxy = Program("nginx", command, log=self.folder / "nginx.log", environment=environment, port=port, whole=True)
        self.parts["nginx"] = proxy
        await proxy.start()
        await proxy.ready()
        self.address = f"http://127.0.0.1:{port}"

    def _install(self, name: str, header: str) -> None:
        """Let the servers have a skill whose runs are asked for."""
        import httpx2

        from benchmarks.soak.asking import archive

        answer = httpx2.post(
            f"{self.address}/api/v1/skill-definitions/upload-create",
            files={"file": (f"{name}.zip", archive(name, "Run it.", header=header, files={"scripts/execute.py": _SCRIPT}))},
            timeout=60, trust_env=False,
        )  # fmt: skip
        answer.raise_for_status()

    async def heal(self) -> None:
        """Undo every fault: wires whole, nothing paused, everything started."""
        for wire in self.wires.values():
            wire.heal()
        for part in self.parts.values():
            part.go_on()
        for part in self.parts.values():
            if not part.processes():
                await part.start()
        for part in (*self.servers(), self.parts["nginx"]):
            if isinstance(part, Program):
                await part.ready()

    async def close(self) -> None:
        """End what is left of everything."""
        for part in reversed(self.parts.values()):
            part.go_on()
            with contextlib.suppress(Exception):
                await part.kill()
        for wire in self.wires.values():
            await wire.close()


@contextlib.asynccontextmanager
async def running_site(folder: Path, plan: Plan) -> AsyncIterator[Site]:
    """A site that runs as long as the block lasts."""
    site = Site(folder, plan)
    try:
        await site.build()
        yield site
    finally:
        await site.close()


def _postgresql() -> Any:
    """What the tests start PostgreSQL with."""
    specification = importlib.util.spec_from_file_location("soak_postgresql", ROOT / "tests/postgresql.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
