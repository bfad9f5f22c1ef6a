"""OpenAI's chat completions."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Call, Dialect, Event, Json, Part, Request, Text, Tool, fresh, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CHAT_COMPLETIONS"]

OBSERVED = re.compile(r"(?:^|\n)(?:Observation|Error):\n")
RETRY = "Now let's retry: take care not to repeat previous errors!"
"""In smolagents, results and errors are messages of the user; it joins those that follow one another."""


def _read(body: Json) -> Request:
    messages = body.get("messages", [])
    return Request(
        tools=tuple(_tool(each["function"]) for each in body.get("tools") or [] if "function" in each),
        text=joined(message.get("content") for message in messages if message.get("role") != "tool"),
        results=tuple(result for message in messages for result in _results(message)),
    )


def _results(message: Json) -> Iterator[str]:
    text = joined([message.get("content")])
    if message.get("role") == "tool":
        yield text
    elif OBSERVED.match(text) or RETRY in text:
        yield from OBSERVED.split(text)[1:]


def _tool(raw: Json) -> Tool:
    return Tool(raw.get("name", ""), raw.get("description") or "", raw.get("parameters") or {})


def _answer(parts: Sequence[Part], model: str) -> Json:
    calls = [_call(part) for part in parts if isinstance(part, Call)]
    text = "".join(part.text for part in parts if isinstance(part, Text)) or None
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {
        "id": fresh("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _call(part: Call) -> Json:
    return {
        "id": fresh("call_"),
        "type": "function",
        "function": {"name": part.name, "arguments": json.dumps(part.arguments)},
    }


def _events(answer: Json) -> Iterator[Event]:
    choice = answer["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
    chunk = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    yield Event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield Event({**chunk, "choices": [end], "usage": answer["usage"]})
    yield Event("[DONE]")


CHAT_COMPLETIONS = Dialect(_read, _answer, _events)
