"""Anthropic's messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Dialect, Event, Json, Part, Request, Text, Tool, fresh, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ANTHROPIC"]


def _read(body: Json) -> Request:
    blocks = [block for message in body.get("messages", []) for block in _blocks(message)]
    said = [block for block in blocks if block.get("type") == "text"]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return Request(
        tools=tuple(_tool(each) for each in body.get("tools") or []),
        text=joined([body.get("system"), said]),
        results=tuple(joined([block.get("content")]) for block in results),
    )


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _tool(raw: Json) -> Tool:
    return Tool(
        name=raw.get("name", ""),
        description=raw.get("description", ""),
        schema=raw.get("input_schema", {}),
        deferred=raw.get("defer_loading", False),
    )


def _answer(parts: Sequence[Part], model: str) -> Json:
    content = [_block(part) for part in parts]
    calls = any(block["type"] == "tool_use" for block in content)
    return {
        "id": fresh("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _block(part: Part) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "tool_use", "id": fresh("toolu_"), "name": part.name, "input": part.arguments}


def _events(answer: Json) -> Iterator[Event]:
    yield _event("message_start", message={**answer, "content": [], "stop_reason": None})
    for index, block in enumerate(answer["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": answer["stop_reason"]}, usage=answer["usage"])
    yield _event("message_stop")


def _event(kind: str, **data: object) -> Event:
    return Event({"type": kind, **data}, kind)


ANTHROPIC = Dialect(_read, _answer, _events)
