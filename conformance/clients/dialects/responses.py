"""OpenAI's responses, with the items that Codex adds for deferred tools and for code mode."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import (
    Dialect,
    Event,
    Json,
    Part,
    Request,
    Text,
    Tool,
    ToolKind,
    fresh,
    joined,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["RESPONSES"]

WITH_TOOLS = ("tool_search_output", "additional_tools")
RESULTS = ("function_call_output", "custom_tool_call_output")
KINDS = {"tool_search": ToolKind.SEARCH, "custom": ToolKind.SCRIPT}


def _read(body: Json) -> Request:
    sent = body.get("input")
    items: list[Json] = sent if isinstance(sent, list) else [{"type": "message", "content": sent}]
    groups = [*(body.get("tools") or []), *(tool for item in items for tool in _tools_of(item))]
    messages = [item.get("content") for item in items if item.get("type", "message") == "message"]
    return Request(
        tools=tuple(_flat(groups)),
        text=joined([body.get("instructions"), messages, [_heading(each) for each in groups]]),
        results=tuple(_result(item) for item in items if item.get("type") in {*RESULTS, "tool_search_output"}),
    )


def _tools_of(item: Json) -> list[Json]:
    found: list[Json] = item.get("tools") or []
    return found if item.get("type") in WITH_TOOLS else []


def _heading(tool: Json) -> str:
    """Return the description of a namespace: Codex writes a server's instructions there."""
    return tool.get("description", "") if tool.get("type") == "namespace" else ""


def _result(item: Json) -> str:
    return joined([item.get("output", item.get("tools"))])


def _flat(tools: Iterable[Json], namespace: str | None = None) -> Iterator[Tool]:
    for tool in tools:
        kind = tool.get("type", "function")
        if kind == "namespace":
            yield from _flat(tool.get("tools", []), tool["name"])
        elif name := tool.get("name") or (kind if kind in KINDS else None):
            schema, description = tool.get("parameters") or {}, tool.get("description") or ""
            yield Tool(name, description, schema, namespace, KINDS.get(kind, ToolKind.FUNCTION))


def _answer(parts: Sequence[Part], model: str) -> Json:
    return {
        "id": fresh("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": model,
        "output": [_item(part) for part in parts],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def _item(part: Part) -> Json:
    if isinstance(part, Text):
        content = [{"type": "output_text", "text": part.text, "annotations": []}]
        return _with_id("message", "msg_", role="assistant", content=content)
    if part.name == "tool_search":
        call = {"call_id": fresh("call_"), "execution": "client", "arguments": part.arguments}
        return _with_id("tool_search_call", "ts_", **call)
    call = {"call_id": fresh("call_"), "name": part.name}
    if part.namespace:
        call["namespace"] = part.namespace
    if isinstance(part.arguments, str):
        return _with_id("custom_tool_call", "ctc_", **call, input=part.arguments)
    return _with_id("function_call", "fc_", **call, arguments=json.dumps(part.arguments))


def _with_id(kind: str, prefix: str, **fields: object) -> Json:
    return {"type": kind, "id": fresh(prefix), "status": "completed", **fields}


def _events(answer: Json) -> Iterator[Event]:
    for number, event in enumerate(_unnumbered(answer)):
        kind = str(event["type"])
        yield Event({**event, "sequence_number": number}, kind)


def _unnumbered(answer: Json) -> Iterator[Json]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(answer["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        for event in _deltas(item):
            yield {**event, "output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": answer}


def _deltas(item: Json) -> Iterator[Json]:
    if item["type"] == "message":
        part = item["content"][0]
        yield {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", "content_index": 0, "delta": part["text"]}
        yield {"type": "response.output_text.done", "content_index": 0, "text": part["text"]}
    elif item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}


RESPONSES = Dialect(_read, _answer, _events)
