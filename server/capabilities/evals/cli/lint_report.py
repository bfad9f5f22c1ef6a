"""The result of `lint` as text and as a JSON object, which docs/guides/test-triggers.md documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.capabilities.evals.lint.catalog_lint import DuplicateKind
from server.cli.console import print_text
from server.hosting.status import display_path
from skills_core.diagnostics import agreeing, counted, one_line, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.capabilities.evals.lint.catalog_lint import CatalogLint, Collision, Competition, Duplicates
    from skills_core.skills.skill import Skill


_MAX_LINES = 20
"""Most findings of a kind, and queries of a pair, that the text lists; the JSON has all."""

_MAX_WORDS = 8
_MAX_QUERY = 80

_IN_COMMON = {
    DuplicateKind.BODY: "the same body",
    DuplicateKind.DESCRIPTION: "the same description",
    DuplicateKind.SIMILAR_DESCRIPTION: "nearly the same description",
}


def lint_object(found: CatalogLint) -> dict[str, Any]:
    """Return the object of `lint --json`."""
    queries = found.queries
    return {
        "skills": len(found.skills),
        "compared": found.compared,
        "competing": [_competition(each) for each in found.competing],
        "duplicates": [_duplicates(each) for each in found.duplicates],
        "queries": {"asked": queries.asked, "files": queries.files, "errors": list(map(printable, queries.errors))},
        "unused": None if found.unused is None else [printable(skill.key) for skill in found.unused],
    }


def _competition(competition: Competition) -> dict[str, Any]:
    pair = competition.pair
    return {
        "skill": printable(competition.skills[0].key),
        "rival": printable(competition.skills[1].key),
        "share": round(pair.share, 4) if pair else None,
        "back": round(pair.back, 4) if pair else None,
        "words": [*pair.words] if pair else [],
        "evidence": "strong" if competition.is_strong else "weak",
        "asked": competition.asked,
        "queries": [_collision(each) for each in competition.collisions],
    }


def _collision(collision: Collision) -> dict[str, Any]:
    return {
        "query": collision.query.text,
        "skill": printable(collision.skill.key),
        "should_trigger": collision.query.should_trigger,
        "rank": collision.rank,
        "weak": collision.weak,
    }


def _duplicates(found: Duplicates) -> dict[str, Any]:
    skills = [{"key": printable(skill.key), "path": display_path(skill)} for skill in found.skills]
    return {"kind": found.kind.value, "share": round(found.share, 4), "skills": skills}


def print_lint(found: CatalogLint) -> None:
    """Print the findings for people, those with the most queries first."""
    for line in _lines(found):
        print_text(one_line(line))


def _lines(found: CatalogLint) -> Iterator[str]:
    queries = found.queries
    yield f"skills for models: {len(found.skills):,}; skills with trigger queries: {queries.files:,}"
    if found.compared < len(found.skills):
        yield f"The descriptions of the first {found.compared:,} were compared with those of all others."
    for strong, title in ((True, "Skills that compete"), (False, "Skills that may compete")):
        chosen = [each for each in found.competing if each.is_strong is strong]
        yield from _section(title, [line for each in chosen for line in _pair_lines(each)])
    yield from _section("Skills that are the same", [_duplicate_line(each) for each in found.duplicates])
    yield from _section("Files of queries that cannot be used", list(queries.errors))
    if found.unused is None:
        yield "No use of skills is recorded on this machine, so that none can be said to be unused."
    else:
        yield from _section("Skills without a recorded use", [_name(skill) for skill in found.unused])
    if not found.has_findings:
        yield "No skills compete, and none are the same."


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines[:_MAX_LINES])
    if more := max(0, len(lines) - _MAX_LINES):
        yield f"  and {counted(more, 'more line')}, which --json has"


def _pair_lines(competition: Competition) -> Iterator[str]:
    one, other = map(_name, competition.skills)
    pair = competition.pair
    words = ", ".join(pair.words[:_MAX_WORDS]) if pair else ""
    alike = (
        f"descriptions compete, {pair.share:.2f} of its score, by {words}" if pair else "descriptions do not compete"
    )
    strength = "strong" if competition.is_strong else "weak"
    number = len(competition.collisions)
    collide = f"{number} of {counted(competition.asked, 'query', 'queries')} {agreeing(number, 'collides', 'collide')}"
    yield f"{one} / {other}: {strength} evidence ({collide if competition.asked else 'no queries'}; {alike})"
    for each in competition.collisions:
        rank = f"has rank {each.rank}" if each.rank else "is not found"
        needs = "" if each.query.should_trigger else f", which needs {_name(each.rival)}"
        weak = " (a weak match)" if each.weak else ""
        yield f"  {_name(each.skill)} {rank} for {shortened(each.query.text, _MAX_QUERY)!r}{needs}{weak}"


def _duplicate_line(found: Duplicates) -> str:
    return f"{', '.join(map(_name, found.skills))}: {_IN_COMMON[found.kind]}"


def _name(skill: Skill) -> str:
    return shortened(skill.key, 100)
