"""The JSON object that `visibility --json` prints; docs/guides/check-visibility.md documents it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from server.capabilities.visibility.report import advice
from server.capabilities.visibility.served_listing import DESCRIBING, EntryState, Obstacle, Sight, shown_entries, tokens
from server.clients.profile import FACTS, Commands, Fact, Limit
from server.hosting.status import display_path
from skills_core.diagnostics import printable
from skills_core.rendering.catalog import entry_beginning, utf16_length

if TYPE_CHECKING:
    from server.capabilities.visibility.clashes import NameClash, SimilarDescriptions
    from server.capabilities.visibility.report import ClientVisibility, NativeSkills, VisibilityReport
    from server.capabilities.visibility.served_listing import ServedSkills, VisibleText
    from server.clients.profile import ClientProfile
    from skills_core.skills.skill import Skill


def report_object(report: VisibilityReport) -> dict[str, Any]:
    """Return the JSON object of a report."""
    catalog = report.catalog
    return {
        "skills": {
            "active": len(catalog.active),
            "for_models": len(catalog.offered),
            "for_users": sum(skill.user_invocable for skill in catalog.active),
        },
        "context_window": report.window,
        "clients": [_client(visibility) for visibility in report.clients],
        "clashes": {"names": [_name(clash) for clash in report.name_clashes], "meaning": _meaning(report.similar)},
    }


def _client(visibility: ClientVisibility) -> dict[str, Any]:
    return {
        "client": visibility.client.key,
        "title": visibility.client.title,
        "version": visibility.version,
        "known": _known(visibility.client),
        "served": _served(visibility.served, prompts_known=visibility.client.prompts is not None),
        "native": _native(visibility.native) if visibility.native else None,
        "shortened": {"skills": len(visibility.shortening.skills), "characters": visibility.shortening.characters},
        "advice": list(advice(visibility)),
    }


def _known(client: ClientProfile) -> dict[str, Any]:
    """Return the known facts that determine what the client shows, each with its source."""
    known: dict[str, Any] = {}
    for field in FACTS:
        fact = getattr(client, field)
        if isinstance(fact, tuple) and hasattr(fact, "evidence") and not isinstance(fact, Commands):
            value = fact.characters if isinstance(fact, Limit) else fact.value if isinstance(fact, Fact) else None
            known[field] = {"value": value, "source": fact.evidence.source, "date": fact.evidence.date}
            if isinstance(fact, Limit):
                known[field]["unit"] = fact.unit.value
    if client.model_results and "result" in known:
        known["result"]["models"] = {model: limit.characters for model, limit in client.model_results}
    return known


def _served(served: ServedSkills, *, prompts_known: bool) -> dict[str, Any]:
    texts = served.texts
    beginnings = frozenset(entry_beginning(shown.skill) for shown in served.skills)
    return {
        "budget": served.budget,
        "description": _text(texts.description, beginnings),
        "find_skills": _text(texts.find_skills, beginnings),
        "instructions": _text(texts.instructions, beginnings),
        "tool_search": asdict(texts.search),
        "schema_bytes": texts.schema,
        "entries": _entries((shown.skill, shown.entry) for shown in served.skills),
        "sight": {
            sight.value: _keys(shown.skill for shown in served.skills if shown.sight is sight) for sight in Sight
        },
        "reasons": {
            obstacle.value: keys
            for obstacle in Obstacle
            if (keys := _keys(shown.skill for shown in served.skills if obstacle in shown.obstacles))
        },
        "in_enum": sum(shown.in_enum for shown in served.skills),
        "prompts": sum(bool(shown.prompt) for shown in served.skills) if prompts_known else None,
    }


def _text(text: VisibleText, beginnings: Container[str]) -> dict[str, int]:
    seen = utf16_length(text.loaded)
    return {
        "characters": utf16_length(text.text),
        "seen": seen,
        "tokens": tokens(seen),
        "entries": _described(text.text, text.loaded, beginnings),
        "at_once": utf16_length(text.at_once),
        "entries_at_once": _described(text.text, text.at_once, beginnings),
    }


def _described(text: str, seen: str, beginnings: Container[str]) -> int:
    return sum(entry.state in DESCRIBING for entry in shown_entries(text, len(seen), beginnings).values())


def _native(native: NativeSkills) -> dict[str, Any]:
    return {
        "budget": native.budget,
        "characters": native.length,
        "tokens": tokens(native.length),
        "entries": _entries(native.skills),
    }


def _name(clash: NameClash) -> dict[str, Any]:
    return {
        "kind": clash.kind.value,
        "skills": [
            {
                "name": printable(skill.name),
                "key": printable(skill.key),
                "state": skill.state.value,
                "path": display_path(skill),
            }
            for skill in clash.skills
        ],
        "clients": [client.key for client in clash.clients],
    }


def _meaning(clashes: SimilarDescriptions) -> dict[str, Any]:
    return {
        "compared": clashes.compared,
        "left_out": clashes.left_out,
        "pairs": [
            {
                "skill": printable(pair.skill.key),
                "rival": printable(pair.rival.key),
                "share": round(pair.share, 3),
                "back": round(pair.back, 3),
                "words": list(pair.words),
            }
            for pair in clashes.pairs
        ],
    }


def _entries(skills: Iterable[tuple[Skill, EntryState]]) -> dict[str, list[str]]:
    """Return the keys of the skills by the state of their entries."""
    listed = list(skills)
    return {entry.value: _keys(skill for skill, became in listed if became is entry) for entry in EntryState}


def _keys(skills: Iterable[Skill]) -> list[str]:
    return [printable(skill.key) for skill in skills]
