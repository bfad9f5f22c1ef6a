"""Trigger tests: ranks without a model, runs with an agent, and descriptions that a model revises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skills_core.evals.triggers.parts import MissingQueries, Part
    from skills_core.evals.triggers.queries import Query


class QuerySets(NamedTuple):
    """The queries of a test, the fresh ones of its end, the parts of an optimization, and what a verdict lacks."""

    queries: tuple[Query, ...]
    holdout: tuple[Query, ...]
    parts: Mapping[Part, tuple[Query, ...]] | None
    missing: MissingQueries


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFlags:
    """The flags of `triggers`."""

    skill_dir: Path
    no_model: bool
    queries: Path | None
    catalog: list[Path] | None
    client: list[str] | None
    min_recall: float | None
    max_false: float | None
    write_queries: bool
    model: str | None
    agent: str | None
    agent_command: str | None
    via: str
    agent_model: str | None
    agent_home: Path | None
    runs: int
    threshold: float
    jobs: int
    timeout: float
    max_calls: int
    optimize: bool
    rounds: int
    seed: int
    holdout: Path | None
    apply: bool
    force: bool
    workspace: Path | None
    dry_run: bool
    max_cost: float | None
    max_requests: int | None
    max_seconds: int | None
    price_in: float | None
    price_out: float | None
    junit: Path | None
    markdown: Path | None
    ci: bool
    as_json: bool
    follow_symlinks: bool
    trust_workspace: bool

    @property
    def tests_agent(self) -> bool:
        """Whether an agent is to be tested."""
        return self.agent is not None or self.agent_command is not None

    @property
    def revisions(self) -> int:
        """The most revisions of the description."""
        return self.rounds if self.optimize else 0
