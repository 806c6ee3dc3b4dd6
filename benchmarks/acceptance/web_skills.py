"""webapp-testing, web-artifacts-builder, mcp-builder, claude-api, frontend-design: servers, browsers, bundles, clients."""

from __future__ import annotations

import json

from benchmarks.acceptance.model import ScriptedModel, expect
from benchmarks.acceptance.opening import see_page, see_picture

_PAGE = """<!doctype html><title>Shop</title><h1>Shop</h1>
<label>Name <input id="name"></label><button id="order">Order</button><p id="told"></p>
<script>
document.getElementById("order").onclick = () => {
  console.log("ordered");
  document.getElementById("told").textContent = "Thank you, " + document.getElementById("name").value;
};
</script>
"""
_AUTOMATION = """
from playwright.sync_api import sync_playwright

with sync_playwright() as p:
    browser = p.chromium.launch(headless=True)
    page = browser.new_page(viewport={"width": 640, "height": 480})
    page.on("console", lambda message: print("console:", message.text))
    page.goto("http://localhost:5173")
    page.wait_for_load_state("networkidle")
    print("buttons:", page.locator("button").count())
    page.fill("#name", "Ada")
    page.click("text=Order")
    print("told:", page.inner_text("#told"))
    page.screenshot(path="/tmp/inspect.png", full_page=True)
    page.screenshot(path="shop.png")
    browser.close()
"""


async def webapp_testing(model: ScriptedModel) -> str:
    """A page is served and driven with Chromium, with the helper of the skill and from a server in the background."""
    await model.load()
    expect("--server" in await model.bash("python {skill}/scripts/with_server.py --help"), "with_server.py has no help")
    await model.write("site/index.html", _PAGE)
    await model.write("automation.py", _AUTOMATION)
    reported = await model.bash(
        'python {skill}/scripts/with_server.py --server "cd site && python -m http.server 5173" --port 5173 '
        "-- python automation.py"
    )
    expect(
        "told: Thank you, Ada" in reported and "console: ordered" in reported and "buttons: 1" in reported,
        f"the page said {reported!r}",
    )
    expect(await model.look("/tmp/inspect.png") == 1, "the screenshot is no picture for the model")
    server = await model.start("cd site && exec python -m http.server 5174")  # the helper of the skill leaves 5173 in use
    again = await model.bash(
        "for i in $(seq 50); do curl -sf localhost:5174 >/dev/null && break; sleep 0.2; done; "
        "sed s/5173/5174/ automation.py > again.py; python again.py"
    )
    await model.use("bash", process=server, stop=True)
    expect("told: Thank you, Ada" in again, f"the page of the background server said {again!r}")
    width, height, _ = await see_picture(model.product("shop.png"))
    expect((width, height) == (640, 480), f"the screenshot is {width} × {height}")
    return "page served, button pressed, console read; screenshot of 640 × 480 opens"


_APP = """import { useState } from "react";
import { Button } from "@/components/ui/button";

export default function App() {
  const [count, setCount] = useState(0);
  return (
    <main className="p-8">
      <h1 className="text-2xl font-bold">Counter</h1>
      <Button id="more" onClick={() => setCount(count + 1)}>Count: {count}</Button>
    </main>
  );
}
"""
_COUNT = """async () => {
  const button = document.querySelector("#more");
  const before = button.textContent;
  button.click();
  await new Promise((done) => setTimeout(done, 200));
  return [before, document.querySelector("#more").textContent, document.scripts.length];
}"""


# What versions of today do otherwise than the skill's text expects, and what their own messages call for.
_IGNORED = "approve-builds|Ignored build scripts"
_GO_ON = "export pnpm_config_strict_dep_builds=false"
_ICON = r"Failed to resolve '[^']*\.svg'"


async def web_artifacts_builder(model: ScriptedModel) -> str:
    """A React project is made, edited and bundled into one HTML file."""
    await model.load()
    await model.bash_until(
        "cd /workspace && bash {skill}/scripts/init-artifact.sh counter", {_IGNORED: f"{_GO_ON}; rm -rf /workspace/counter"}
    )
    await model.write("/workspace/counter/src/App.tsx", _APP)
    await model.bash_until(
        "cd /workspace/counter && bash {skill}/scripts/bundle-artifact.sh",
        {_IGNORED: _GO_ON, _ICON: "sed -i '/rel=\"icon\"/d' index.html"},
    )
    seen = await see_page(model.product("counter/bundle.html"), _COUNT)
    expect(seen.errors == (), f"the page has errors: {seen.errors}")
    expect(isinstance(seen.value, list) and seen.value[:2] == ["Count: 0", "Count: 1"], f"the page shows {seen.value}")
    return "one HTML file, its button counts in Chromium"


_SERVER = '''"""A server of weather stations."""

from enum import Enum

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel, ConfigDict, Field

mcp = FastMCP("stations_mcp")
STATIONS = {"brocken": 1141, "kiel": 5}


class ResponseFormat(str, Enum):
    MARKDOWN = "markdown"
    JSON = "json"


class StationInput(BaseModel):
    """What to look up."""

    model_config = ConfigDict(str_strip_whitespace=True, extra="forbid")
    name: str = Field(..., description="Name of the station (e.g., 'kiel')", min_length=1, max_length=50)
    response_format: ResponseFormat = Field(default=ResponseFormat.MARKDOWN, description="markdown or json")


@mcp.tool(name="stations_get_height", annotations={"title": "Height", "readOnlyHint": True, "destructiveHint": False})
async def stations_get_height(params: StationInput) -> str:
    """The height of a station in metres above the sea."""
    height = STATIONS.get(params.name.lower())
    if height is None:
        return f"Error: no station {params.name!r}. The stations are: {', '.join(STATIONS)}"
    return f'{{"height": {height}}}' if params.response_format == ResponseFormat.JSON else f"**{params.name}**: {height} m"


if __name__ == "__main__":
    mcp.run()
'''
_CLIENT = """
import asyncio, json, sys
sys.path.insert(0, "{skill}/scripts")
from connections import create_connection

async def main():
    async with create_connection("stdio", command="python", args=["stations_mcp.py"]) as connection:
        tools = await connection.list_tools()
        found = await connection.call_tool("stations_get_height", {"params": {"name": "Kiel"}})
        missing = await connection.call_tool("stations_get_height", {"params": {"name": "Mars"}})
        print(json.dumps([tools[0]["name"], found[0].text, missing[0].text]))

asyncio.run(main())
"""
_EVALUATION = """<evaluation>
  <qa_pair><question>How high is Kiel, in metres?</question><answer>5</answer></qa_pair>
</evaluation>
"""


async def mcp_builder(model: ScriptedModel) -> str:
    """A server is written and answers the client of the SDK."""
    await model.load()
    await model.skill_file("reference/mcp_best_practices.md")
    await model.skill_file("reference/python_mcp_server.md")
    await model.write("stations_mcp.py", _SERVER)
    await model.bash("python -m py_compile stations_mcp.py")
    reported = json.loads((await model.python(_CLIENT)).splitlines()[-1])
    expect(
        reported[:2] == ["stations_get_height", "**Kiel**: 5 m"] and reported[2].startswith("Error: no station"),
        f"it answers {reported}",
    )
    await model.write("evaluation.xml", _EVALUATION)
    asked = await model.bash(
        'cd {skill}/scripts && python -c "import evaluation, pathlib; '
        "print(len(evaluation.parse_evaluation_file(pathlib.Path('/workspace/evaluation.xml'))))\"; cd /workspace"
    )
    expect(asked == "1", f"the evaluation is not understood: {asked}")
    return "the mcp client lists its tool, calls it and gets a useful error"


_ASK = """
import anthropic

client = anthropic.Anthropic(api_key="test", base_url="http://127.0.0.1:8123")
with client.messages.stream(
    model="claude-opus-4-8", max_tokens=64, thinking={"type": "adaptive"}, messages=[{"role": "user", "content": "Say hello"}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
    print("\\n" + str(stream.get_final_message().usage.output_tokens))
"""
_SERVICE = """
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": [],
           "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}}
EVENTS = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]

class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        open("asked.json", "w").write(json.dumps([self.path, asked]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in EVENTS:
            self.wfile.write(f"event: {event['type']}\\ndata: {json.dumps(event)}\\n\\n".encode())

HTTPServer(("127.0.0.1", 8123), Service).serve_forever()
"""


async def claude_api(model: ScriptedModel) -> str:
    """A program with the official SDK streams an answer from a service that is served in the workspace."""
    await model.load()
    await model.skill_file("python/claude-api/streaming.md")
    await model.write("service.py", _SERVICE)
    await model.write("ask.py", _ASK)
    server = await model.start("exec python service.py")
    reported = await model.bash(
        "for i in $(seq 50); do (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null && break; sleep 0.2; done; python ask.py"
    )
    await model.use("bash", process=server, stop=True)
    expect(reported.split() == ["Hello", "7"], f"the program wrote {reported!r}")
    path, asked = json.loads(model.product("asked.json").read_text())
    expect((path, asked["model"], asked["stream"]) == ("/v1/messages", "claude-opus-4-8", True), f"the request was {asked}")
    return "the SDK's request reached a service, its stream was read"


_DESIGN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Harbour</title><style>
:root { --ink: #1b2a2f; --paper: #f3ede2; --signal: #c8442c; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 18px/1.5 Georgia, serif; }
body { display: grid; grid-template-columns: 2fr 1fr; }
h1 { font-size: 72px; letter-spacing: -2px; margin: 12vh 0 0 6vw; }
aside { background: var(--ink); color: var(--paper); min-height: 100vh; padding: 4vw; }
a { color: var(--signal); }
@keyframes rise { from { transform: translateY(20px) } }
@media (prefers-reduced-motion: no-preference) { h1 { animation: rise .6s } }
</style></head><body><main><h1>Harbour<br>at dawn</h1></main>
<aside><p>Open from five. <a href="#">Tides</a></p></aside></body></html>
"""
_MEASURED = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('h1')).fontSize,
document.documentElement.scrollWidth <= innerWidth]"""


async def frontend_design(model: ScriptedModel) -> str:
    """A page is written that keeps to its own few colours and sizes."""
    await model.load()
    await model.write("harbour.html", _DESIGN)
    seen = await see_page(model.product("harbour.html"), _MEASURED)
    expect((seen.value, seen.errors) == (["rgb(243, 237, 226)", "72px", True], ()), f"Chromium shows {seen}")
    return "the page in Chromium has its colours and sizes, no error, nothing wider than the window"
