"""What an agent printed, as entries with a label and a text; long transcripts lose their middle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from server.evals.report.fields import first, number, record, text, texts
from server.evals.report.model import Transcript
from server.evals.report.outputs import decoded
from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from server.evals.report.folder import Folder
    from server.evals.report.outputs import Budget

__all__ = ["read_lines", "read_transcript"]

_HEAD, _TAIL = 60, 60
# Entries that are shown of the beginning and of the end.

MAX_ENTRY: Final = 4000
"""Characters of one entry that the report shows."""

_MAX_DOCUMENT = 60_000
# Characters of a transcript that is a document.

_DOCUMENTS = ("transcript.md", "outputs/transcript.md")
# skill-creator's agents write one of these.


def read_transcript(folder: Folder, run: str, budget: Budget | None) -> tuple[Transcript, float | None]:
    """Return the transcript of the run in a folder, and the money that it tells of; without a budget only the money."""
    raw = folder.read(f"{run}/transcript.jsonl")
    if raw is not None:
        lines = [line for line in raw.split(b"\n") if line.strip()]
        return (_from_lines(lines, budget) if budget else Transcript()), _cost(lines)
    if budget is None:
        return Transcript(), None
    for name in _DOCUMENTS:
        raw = folder.read(f"{run}/{name}")
        if raw is not None:
            content, note = decoded(raw, _MAX_DOCUMENT)
            return _within(budget, Transcript(((name, content),), note=note)), None
    return Transcript(), None


def read_lines(folder: Folder, path: str, budget: Budget) -> Transcript:
    """Return the transcript in a file of JSON lines; an empty one if it cannot be read."""
    raw = folder.read(path)
    return _from_lines([line for line in (raw or b"").split(b"\n") if line.strip()], budget)


def _from_lines(lines: Sequence[bytes], budget: Budget) -> Transcript:
    long = len(lines) > _HEAD + _TAIL
    head = _entries(lines[:_HEAD] if long else lines)
    tail = _entries(lines[-_TAIL:]) if long else ()
    transcript = Transcript(head, tail, len(lines) - _HEAD - _TAIL if long else 0)
    return _within(budget, transcript)


def _within(budget: Budget, transcript: Transcript) -> Transcript:
    size = sum(len(entry[1]) for entry in (*transcript.head, *transcript.tail))
    if budget.take(size):
        return transcript
    return Transcript(note="Not shown: the report has reached its size limit.")


def _entries(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_entry, lines))


def _entry(line: bytes) -> tuple[str, str]:
    value = _value(line)
    if value is None or not isinstance(value, dict):
        return "text", _bounded(line.decode("utf-8", "replace"))
    label = " ".join(filter(None, (text(value.get(name)) for name in ("type", "subtype", "role", "event", "kind"))))
    return label[:100] or "entry", _bounded(_of_executor(value) or _message(value) or _as_json(value))


def _of_executor(value: Mapping[str, Any]) -> str:
    """Return what our own executor writes of a request to the model or of a call; empty for other entries."""
    match value:
        case {"kind": "model", "text": str(said), "wanted": list(wanted)}:
            lines = [said, f"→ {', '.join(texts(wanted))}" if wanted else "", text(value.get("error"))]
        case {"kind": "tool", "call": {"tool": str(tool), "text": str(said), **call}}:
            decision = text(call.get("decision"))
            told = ": ".join(filter(None, (decision if decision != "done" else "", text(call.get("reason")))))
            lines = [f"→ {tool} {_as_json(call.get('arguments'))}", f"← {said}" if said else "", told]
        case _:
            return ""
    return "\n".join(filter(None, lines))


def _message(value: Mapping[str, Any]) -> str:
    """Return the text and the tool calls of a message; empty if the entry has another form."""
    content = first(dict(value) | dict(record(value.get("message"))), "content", "text")
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(filter(None, map(_block, blocks)))


def _block(value: Any) -> str:  # noqa: ANN401 - JSON
    match value:
        case str():
            return value
        case {"type": "text" | "thinking", **rest}:
            return text(rest.get("text")) or text(rest.get("thinking"))
        case {"type": "tool_use", "name": str(name), **rest}:
            return f"→ {name} {_as_json(rest.get('input'))}"
        case {"type": "tool_result", **rest}:
            content = rest.get("content")
            return f"← {content if isinstance(content, str) else _as_json(content)}"
        case None:
            return ""
    return _as_json(value)


def _as_json(value: Any) -> str:  # noqa: ANN401 - JSON
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (RecursionError, ValueError):
        return "(nested too deep)"


def _value(line: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (RecursionError, ValueError):
        return None


def _bounded(content: str) -> str:
    cut = content if len(content) <= MAX_ENTRY else f"{content[:MAX_ENTRY]}… ({len(content) - MAX_ENTRY:,} more)"
    return without_lone_surrogates(cut)


def _cost(lines: Sequence[bytes]) -> float | None:
    """Return the last total that the agent printed; Claude Code ends with one."""
    for line in reversed(lines):
        if b'"total_cost_usd"' in line:
            value = _value(line)
            return number(value.get("total_cost_usd")) if isinstance(value, dict) else None
    return None
