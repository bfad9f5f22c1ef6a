"""`triggers --write-queries`: draft trigger queries with the configured model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.evals.ranked_triggers import open_skill, require_folder
from server.evals.triggers.query_drafts import drafts_document, require_no_queries, write_drafts
from server.listing.runs import runs_unavailable_reason
from server.transport.signals import until_signalled
from skills_core.evals.triggers.query_drafting import EACH, QueryDraftError, draft_queries, drafting_prompt
from skills_core.run.models import CLIENT, connected, open_model, parse_model
from skills_core.selection import SelectionPolicy, SkillSearch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.config.settings.runs import RunSettings
    from skills_core.evals.triggers.query_drafting import Drafts
    from skills_core.skill import Skill

__all__ = ["draft_into"]

_RIVALS = SelectionPolicy(top_k=31, min_score=0.0)
# The skill itself and thirty that match its description best.

_CHARACTERS_A_TOKEN = 4


def draft_into(folder: Path, catalog: Sequence[Path] | None, *, as_json: bool, **flags: object) -> None:
    """Draft queries for the skill in `folder` and write them to its file; exit with 1 if the model drafts none."""
    require_folder(folder)
    require_no_queries(folder)
    library, settings, skill = open_skill(folder, catalog, **flags)
    if (reason := runs_unavailable_reason(settings.runs)) or settings.runs.model == CLIENT:
        fail(reason or "the model `client` needs a connected client; name another model with --model", EXIT_USAGE)
    rivals = _rivals(skill, library.catalog.offered)
    tokens = len(drafting_prompt(skill, rivals)) // _CHARACTERS_A_TOKEN
    print_notice(f"asks {settings.runs.model} once, with some {tokens:,} tokens; twice more if the answer is unusable")
    try:
        drafts = until_signalled(lambda: _draft(settings.runs, skill, rivals))
    except QueryDraftError as error:
        fail(f"{error}; requests made: {error.usage.requests}", EXIT_NO)
    file = write_drafts(folder, drafts.queries)
    if as_json:
        print_json({"file": str(file), "queries": drafts_document(drafts.queries)})
    else:
        print_text(f"wrote {EACH} queries that should trigger and {EACH} near-misses to {file}")
        print_text("They are a draft: read each one, correct its label, and replace what no user of yours would say.")


def _rivals(skill: Skill, offered: tuple[Skill, ...]) -> list[Skill]:
    """Return the skills that match the description best, which near-misses may need."""
    matches = SkillSearch().select(offered, skill.description, _RIVALS)
    return [match.skill for match in matches if match.skill.path != skill.path]


async def _draft(settings: RunSettings, skill: Skill, rivals: Sequence[Skill]) -> Drafts:
    key = settings.model_key.get_secret_value() if settings.model_key else None
    model = open_model(parse_model(settings.model or ""), key)
    async with connected(model):
        return await draft_queries(model, skill, rivals)
