"""Gemini's generateContent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Dialect, Event, Json, Part, Request, Text, Tool, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["GEMINI"]


def _read(body: Json) -> Request:
    parts = [part for content in body.get("contents", []) for part in content.get("parts") or []]
    declared = [
        declaration
        for tool in body.get("tools") or []
        for declaration in tool.get("functionDeclarations") or tool.get("function_declarations") or []
    ]
    return Request(
        tools=tuple(_tool(each) for each in declared),
        text=joined([body.get("systemInstruction"), [part["text"] for part in parts if "text" in part]]),
        results=tuple(
            joined([each["functionResponse"].get("response")]) for each in parts if "functionResponse" in each
        ),
    )


def _tool(raw: Json) -> Tool:
    schemas = (raw.get(key) for key in ("parametersJsonSchema", "parameters_json_schema", "parameters"))
    return Tool(raw.get("name", ""), raw.get("description", ""), next((each for each in schemas if each), {}))


def _answer(parts: Sequence[Part], model: str) -> Json:
    content = {"role": "model", "parts": [_part(part) for part in parts]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": model,
    }


def _part(part: Part) -> Json:
    if isinstance(part, Text):
        return {"text": part.text}
    return {"functionCall": {"name": part.name, "args": part.arguments}}


def _events(answer: Json) -> Iterator[Event]:
    yield Event(answer)


GEMINI = Dialect(_read, _answer, _events)
