"""A model server on loopback that follows a script and checks every request: four wire formats, whole and streamed.

It speaks OpenAI Chat Completions and Responses, Anthropic Messages and Gemini's generateContent. What it answers is a list of
replies, or a function of the request. What a real service would refuse is noted in `faults`, and refused.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Json = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """The model writes this."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool; `arguments` given as text are sent as they are."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Fail:
    """The service answers with this status."""

    status: int = 500
    message: str = "the script says so"


@dataclass(frozen=True)
class Hold:
    """The model writes this, and then nothing more until the server is let go."""

    text: str = "Let me"


Part = Say | Call | Fail | Hold
Reply = Sequence[Part]


@dataclass(frozen=True)
class Seen:
    """One request, in the same words for every wire format.

    `calls` are (id, name, arguments) in the order of the history, `results` are (id, text).
    """

    wire: str
    model: str
    system: str
    user: tuple[str, ...]
    assistant: tuple[str, ...]
    calls: tuple[tuple[str, str, str], ...]
    results: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    stream: bool
    body: Json

    @property
    def schemas(self) -> dict[str, Json]:
        """The JSON Schema of each tool as it was sent, by its name; Gemini's types are put into the usual notation."""
        found: dict[str, Json] = {}
        for tool in self.body.get("tools") or []:
            for shape in [tool.get("function", tool)] if self.wire != "gemini" else _declarations(tool):
                sent = next((shape[key] for key in _SCHEMA_KEYS if shape.get(key) is not None), {})
                found[shape["name"]] = _usual(sent)
        return found

    @property
    def strict(self) -> tuple[str, ...]:
        """The tools whose arguments the service holds to the schema alone, so that nothing else can be passed.

        The Responses API takes a tool for strict when nothing is said; Gemini is so for all tools or none.
        """
        if self.wire == "gemini":
            config = self.body.get("toolConfig") or self.body.get("tool_config") or {}
            mode = (config.get("functionCallingConfig") or config.get("function_calling_config") or {}).get("mode")
            return self.tools if mode in ("VALIDATED", "ANY") else ()
        shapes = [tool.get("function", tool) for tool in self.body.get("tools") or []]
        return tuple(shape["name"] for shape in shapes if shape.get("strict", self.wire == "responses"))

    def check_open(self, tool: str, arguments: Json) -> None:
        """Fail when a service that holds the model to what was sent would not let it pass these arguments to the tool."""
        import jsonschema_rs

        sent = self.schemas[tool]
        assert jsonschema_rs.is_valid(sent, arguments), f"{self.wire}: {tool} takes {json.dumps(sent)}"
        assert tool not in self.strict, f"{self.wire}: {tool} is strict"

    @property
    def said(self) -> str:
        """What the user said last."""
        return self.user[-1] if self.user else ""

    @property
    def last(self) -> str:
        """The newest result of a tool."""
        return self.results[-1][1] if self.results else ""


_SCHEMA_KEYS = ("parameters_json_schema", "parametersJsonSchema", "input_schema", "parameters")


def _declarations(tool: Json) -> list[Json]:
    return list(tool.get("functionDeclarations") or tool.get("function_declarations") or [])


def _usual(schema: Any) -> Any:
    """A schema with the names of types in lower case, as JSON Schema has them."""
    if isinstance(schema, list):
        return [_usual(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value.lower() if key == "type" and isinstance(value, str) else _usual(value) for key, value in schema.items()}


class Fault(Exception):
    """What a real service would answer 400 to."""


class ScriptedModels:
    """The server; `script` it, use its addresses, look at `seen` and `faults`."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.faults: list[str] = []
        self.go_on = threading.Event()
        self.holding = threading.Event()
        self._replies: Iterator[Reply] | Callable[[Seen], Reply] = iter(())
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        server = self

        class Handler(_Handler):
            models = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes the stock SDKs come here, with keys that are none."""
        return {
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "OPENAI_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "GOOGLE_GEMINI_BASE_URL": self.address,
            "GOOGLE_API_KEY": "g-test",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }

    def reset(self) -> None:
        """Forget what was seen and scripted, for the next test of those that share it."""
        self.go_on.set()
        self.seen, self.faults, self._replies = [], [], iter(())
        self.go_on, self.holding = threading.Event(), threading.Event()

    def script(self, *replies: Reply | Part) -> None:
        """Answer the next requests with these, one after the other."""
        self._replies = iter([reply if isinstance(reply, Sequence) else [reply] for reply in replies])

    def answer_with(self, answer: Callable[[Seen], Reply | Part]) -> None:
        """Answer every request with what a function says."""

        def wrapped(seen: Seen) -> Reply:
            reply = answer(seen)
            return reply if isinstance(reply, Sequence) else [reply]

        self._replies = wrapped

    def reply(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            if callable(self._replies):
                return self._replies(seen)
            try:
                return next(self._replies)
            except StopIteration:
                raise Fault("the script has no more replies") from None

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids):06d}"

    def close(self) -> None:
        self.go_on.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _need(truth: object, message: str) -> None:
    if not truth:
        raise Fault(message)


def _text(content: Any) -> str:
    """The text of a content that may be a text or a list of blocks."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))


def _tool_names(shapes: Sequence[Json], schema: str) -> tuple[str, ...]:
    names = []
    for shape in shapes:
        _need(_NAME.fullmatch(str(shape.get("name", ""))), f"a tool has the name {shape.get('name')!r}")
        _need(shape.get(schema, {}).get("type") in ("object", "OBJECT", None), f"the schema of {shape['name']} is no object")
        names.append(shape["name"])
    _need(len(names) == len(set(names)), "two tools have one name")
    return tuple(names)


def _paired(calls: Sequence[tuple[str, str, str]], results: Sequence[tuple[str, str]]) -> None:
    wanted, given = [call[0] for call in calls], [result[0] for result in results]
    _need(sorted(wanted) == sorted(given), f"calls {wanted} and results {given} do not belong together")
    for _, name, arguments in calls:
        _need(_NAME.fullmatch(name), f"a call in the history names {name!r}")
        try:
            _need(isinstance(json.loads(arguments or "{}"), dict), "arguments in the history are no object")
        except ValueError:
            raise Fault(f"arguments in the history are not JSON: {arguments[:80]!r}") from None


def _seen(wire: str, model: str, system: Sequence[str], *more: Any) -> Seen:
    *lists, names, stream, body = more
    return Seen(wire, model, "\n\n".join(filter(None, system)), *map(tuple, lists), names, stream, body)


def read_chat(body: Json) -> Seen:
    system, user, assistant, calls, results, open_ids = [], [], [], [], [], set()
    for message in body["messages"]:
        role, said = message["role"], _text(message.get("content"))
        if role != "tool":
            _need(not open_ids, f"a {role} message before the results of {sorted(open_ids)}")
        if role in ("system", "developer"):
            system.append(said)
        elif role == "user":
            user.append(said)
        elif role == "assistant":
            assistant.append(said)
            for call in message.get("tool_calls") or []:
                calls.append((call["id"], call["function"]["name"], call["function"]["arguments"]))
                open_ids.add(call["id"])
        else:
            _need(role == "tool", f"an unknown role {role!r}")
            _need(message["tool_call_id"] in open_ids, f"a result for {message['tool_call_id']}, which nobody called")
            open_ids.discard(message["tool_call_id"])
            results.append((message["tool_call_id"], said))
    _paired(calls, results)
    names = _tool_names([tool["function"] for tool in body.get("tools") or []], "parameters")
    stream = bool(body.get("stream"))
    return _seen("chat", body["model"], system, user, assistant, calls, results, names, stream, body)


_BUILT_IN = ("web_search", "image_generation")


def read_responses(body: Json) -> Seen:
    system, user, assistant, calls, results = [str(body.get("instructions") or "")], [], [], [], []
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind == "message":
            said = _text(item["content"])
            {"user": user, "assistant": assistant}.get(item["role"], system).append(said)
        elif kind == "function_call":
            calls.append((item["call_id"], item["name"], item["arguments"]))
        elif kind == "function_call_output":
            results.append((item["call_id"], _text(item["output"])))
        else:
            _need(kind in ("reasoning",), f"an unknown item {kind!r}")
    _paired(calls, results)
    shapes = [tool for tool in body.get("tools") or [] if tool.get("type") not in ("namespace", *_BUILT_IN)]
    spaces = [tool for tool in body.get("tools") or [] if tool.get("type") == "namespace"]
    inner = [f"{space['name']}.{name}" for space in spaces for name in _tool_names(space["tools"], "parameters")]
    names = (*_tool_names(shapes, "parameters"), *inner)
    stream = bool(body.get("stream"))
    return _seen("responses", body["model"], system, user, assistant, calls, results, names, stream, body)


def read_messages(body: Json) -> Seen:
    _need(isinstance(body.get("max_tokens"), int), "max_tokens is missing")
    user, assistant, calls, results, open_ids, system = [], [], [], [], set(), [_text(body.get("system"))]
    for message in body["messages"]:
        if message["role"] == "system":  # Claude Code says there what changed in between
            system.append(_text(message["content"]))
            continue
        blocks = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
        _need(blocks, "an empty message")
        if message["role"] == "assistant":
            _need(not open_ids, "an assistant message before the results of its calls")
            for block in blocks:
                if block["type"] == "tool_use":
                    calls.append((block["id"], block["name"], json.dumps(block["input"])))
                    open_ids.add(block["id"])
                else:
                    assistant.append(block["text"])
            continue
        _need(message["role"] == "user", f"an unknown role {message['role']!r}")
        for block in blocks:
            if block["type"] == "tool_result":
                _need(block["tool_use_id"] in open_ids, f"a result for {block['tool_use_id']}, which nobody called")
                open_ids.discard(block["tool_use_id"])
                results.append((block["tool_use_id"], _text(block.get("content"))))
            elif block["type"] == "image":
                _need(not open_ids, "a picture before the results of the calls")
                _need(block["source"]["type"] == "base64" and block["source"]["data"], "a picture without its bytes")
            else:
                _need(not open_ids, "text before the results of the calls")
                _need(block["text"].strip(), "a text block is empty")
                user.append(block["text"])
    _paired(calls, results)
    names = _tool_names(body.get("tools") or [], "input_schema")
    stream = bool(body.get("stream"))
    return _seen("messages", body["model"], system, user, assistant, calls, results, names, stream, body)


def read_gemini(body: Json, model: str, stream: bool) -> Seen:
    user, assistant, calls, results = [], [], [], []
    for content in body["contents"]:
        for part in content["parts"]:
            if call := part.get("functionCall"):
                calls.append((call.get("id") or f"{call['name']}-{len(calls)}", call["name"], json.dumps(call.get("args", {}))))
            elif answer := part.get("functionResponse"):
                shown = json.dumps(answer["response"], ensure_ascii=False)
                results.append((answer.get("id") or f"{answer['name']}-{len(results)}", shown))
            else:
                (assistant if content.get("role") == "model" else user).append(str(part.get("text", "")))
    _paired(calls, results)
    shapes = [shape for tool in body.get("tools") or [] for shape in tool.get("functionDeclarations", [])]
    names = _tool_names(shapes, "parameters")
    system = [_text((body.get("systemInstruction") or {}).get("parts"))]
    return _seen("gemini", model, system, user, assistant, calls, results, names, stream, body)


def _usage(seen: Seen) -> tuple[int, int]:
    return len(json.dumps(seen.body)) // 4, 7


def _pieces(text: str) -> list[str]:
    """A text as it comes in a stream: in small pieces that end anywhere; a long one in as many larger ones."""
    size = max(11, len(text) // 400)
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


class _Handler(BaseHTTPRequestHandler):
    """Reads one request, checks it, answers it."""

    protocol_version = "HTTP/1.1"
    models: ScriptedModels

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            seen = self._read(json.loads(raw))
            reply = self.models.reply(seen)
        except (Fault, KeyError, TypeError, ValueError) as error:
            self.models.faults.append(f"{self.path}: {type(error).__name__}: {error}")
            self._send(400, {"error": {"type": "invalid_request_error", "message": str(error)}})
            return
        failed = next((part for part in reply if isinstance(part, Fail)), None)
        if failed:
            self._send(failed.status, {"type": "error", "error": {"type": "scripted", "message": failed.message}})
            return
        try:
            getattr(self, f"_{seen.wire}")(seen, reply)
        except OSError:
            self.close_connection = True  # the program has gone away

    def _read(self, body: Json) -> Seen:
        path = self.path.partition("?")[0]
        if path == "/v1/messages":
            _need(self.headers.get("anthropic-version"), "anthropic-version is missing")
            _need(self.headers.get("x-api-key") or self.headers.get("Authorization"), "no key")
            return read_messages(body)
        if path.startswith("/v1beta/models/"):
            model, _, method = path.removeprefix("/v1beta/models/").partition(":")
            return read_gemini(body, model, method == "streamGenerateContent")
        _need(str(self.headers.get("Authorization", "")).startswith("Bearer "), "no key")
        if path == "/v1/chat/completions":
            return read_chat(body)
        _need(path == "/v1/responses", f"there is no {path}")
        return read_responses(body)

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[tuple[str | None, Json | str]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())
            self.wfile.flush()

    def _held(self, part: Part) -> None:
        if isinstance(part, Hold):
            self.models.holding.set()
            self.models.go_on.wait(60)

    # OpenAI Chat Completions

    def _chat(self, seen: Seen, reply: Reply) -> None:
        calls = [part for part in reply if isinstance(part, Call)]
        reason, (sent, got) = "tool_calls" if calls else "stop", _usage(seen)
        usage = {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got}
        base = {"id": self.models.new_id("chatcmpl"), "created": 1, "model": seen.model}
        if not seen.stream:
            shapes = [self._chat_call(call) for call in calls]
            text = "".join(part.text for part in reply if isinstance(part, (Say, Hold)))
            message = {"role": "assistant", "content": text or None} | ({"tool_calls": shapes} if shapes else {})
            choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
            self._send(200, base | {"object": "chat.completion", "choices": [choice], "usage": usage})
            return

        def chunks() -> Iterator[tuple[str | None, Json | str]]:
            whole = base | {"object": "chat.completion.chunk"}
            place = 0

            def chunk(delta: Json, finish: str | None = None) -> tuple[None, Json]:
                return None, whole | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

            yield chunk({"role": "assistant", "content": ""})
            for part in reply:
                if isinstance(part, Call):
                    shape = self._chat_call(part)
                    first = shape | {"index": place, "function": {"name": part.name, "arguments": ""}}
                    yield chunk({"tool_calls": [first]})
                    for piece in _pieces(part.written):
                        yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
                    place += 1
                elif isinstance(part, (Say, Hold)):
                    for piece in _pieces(part.text):
                        yield chunk({"content": piece})
                    self._held(part)
            yield chunk({}, reason)
            yield None, whole | {"choices": [], "usage": usage}
            yield None, "[DONE]"

        self._stream(chunks())

    def _chat_call(self, call: Call) -> Json:
        function = {"name": call.name, "arguments": call.written}
        return {"id": self.models.new_id("call"), "type": "function", "function": function}

    # OpenAI Responses

    def _responses(self, seen: Seen, reply: Reply) -> None:
        items = [self._item(part) for part in reply]
        sent, got = _usage(seen)
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got} | details
        whole: Json = {
            "id": self.models.new_id("resp"), "object": "response", "created_at": 1, "model": seen.model, "status": "completed",
            "output": items, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0, "usage": usage,
        }  # fmt: skip
        if not seen.stream:
            self._send(200, whole)
            return
        number = itertools.count()

        def event(kind: str, /, **more: Any) -> tuple[str, Json]:
            return kind, {"type": kind, "sequence_number": next(number), **more}

        def events() -> Iterator[tuple[str | None, Json | str]]:
            begun = whole | {"status": "in_progress", "output": [], "usage": None}
            yield event("response.created", response=begun)
            for at, (part, item) in enumerate(zip(reply, items, strict=True)):
                where = {"output_index": at, "item_id": item["id"]}
                if isinstance(part, Call):
                    yield event("response.output_item.added", output_index=at, item=item | {"arguments": ""})
                    for piece in _pieces(part.written):
                        yield event("response.function_call_arguments.delta", delta=piece, **where)
                    yield event("response.function_call_arguments.done", arguments=part.written, name=part.name, **where)
                else:
                    yield event("response.output_item.added", output_index=at, item=item | {"content": []})
                    empty = {"type": "output_text", "text": "", "annotations": []}
                    yield event("response.content_part.added", content_index=0, part=empty, **where)
                    for piece in _pieces(part.text):
                        yield event("response.output_text.delta", content_index=0, delta=piece, logprobs=[], **where)
                    self._held(part)
                    yield event("response.output_text.done", content_index=0, text=part.text, logprobs=[], **where)
                yield event("response.output_item.done", output_index=at, item=item)
            yield event("response.completed", response=whole)

        self._stream(events())

    def _item(self, part: Part) -> Json:
        if isinstance(part, Call):
            shape = {"type": "function_call", "id": self.models.new_id("fc"), "call_id": self.models.new_id("call")}
            space, _, name = part.name.rpartition(".")
            named = {"name": name, "namespace": space} if space else {"name": name}
            return shape | named | {"arguments": part.written, "status": "completed"}
        content = [{"type": "output_text", "text": getattr(part, "text", ""), "annotations": [], "logprobs": []}]
        shape = {"type": "message", "id": self.models.new_id("msg"), "role": "assistant", "status": "completed"}
        return shape | {"content": content}

    # Anthropic Messages

    def _messages(self, seen: Seen, reply: Reply) -> None:
        reason = "tool_use" if any(isinstance(part, Call) for part in reply) else "end_turn"
        sent, got = _usage(seen)
        base = {"id": self.models.new_id("msg"), "type": "message", "role": "assistant", "model": seen.model}
        if not seen.stream:
            blocks = [self._block(part) for part in reply]
            usage = {"input_tokens": sent, "output_tokens": got}
            self._send(200, base | {"content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage})
            return

        def events() -> Iterator[tuple[str | None, Json | str]]:
            begun = base | {"content": [], "stop_reason": None, "stop_sequence": None}
            started = begun | {"usage": {"input_tokens": sent, "output_tokens": 1}}
            yield "message_start", {"type": "message_start", "message": started}
            for at, part in enumerate(reply):
                block = self._block(part)
                empty = {"input": {}} if isinstance(part, Call) else {"text": ""}
                yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": block | empty}
                text = part.written if isinstance(part, Call) else getattr(part, "text", "")
                for piece in _pieces(text):
                    delta = {"type": "text_delta", "text": piece}
                    if isinstance(part, Call):
                        delta = {"type": "input_json_delta", "partial_json": piece}
                    yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
                self._held(part)
                yield "content_block_stop", {"type": "content_block_stop", "index": at}
            ended = {"stop_reason": reason, "stop_sequence": None}
            yield "message_delta", {"type": "message_delta", "delta": ended, "usage": {"output_tokens": got}}
            yield "message_stop", {"type": "message_stop"}

        self._stream(events())

    def _block(self, part: Part) -> Json:
        if not isinstance(part, Call):
            return {"type": "text", "text": getattr(part, "text", "")}
        try:
            given = json.loads(part.written)
        except ValueError:
            given = {}
        return {"type": "tool_use", "id": self.models.new_id("toolu"), "name": part.name, "input": given}

    # Gemini

    def _gemini(self, seen: Seen, reply: Reply) -> None:
        parts: list[Json] = []
        for part in reply:
            if isinstance(part, Call):
                call = {"id": self.models.new_id("fc"), "name": part.name, "args": json.loads(part.written)}
                parts.append({"functionCall": call})
            else:
                parts.append({"text": getattr(part, "text", "")})
        sent, got = _usage(seen)
        usage = {"promptTokenCount": sent, "candidatesTokenCount": got, "totalTokenCount": sent + got}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": seen.model, "responseId": "r"}
        if seen.stream:
            self._stream(iter([(None, answer)]))
        else:
            self._send(200, answer)
