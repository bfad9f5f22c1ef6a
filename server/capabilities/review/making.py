"""Make a review: read both versions from git, and compare them skill by skill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from server.capabilities.review.agents import measure_agent
from server.capabilities.review.changes import find_changes, read_versions
from server.capabilities.review.findings import compare_diagnostics, compare_findings
from server.capabilities.review.report import ReviewedSkill, SkillReview
from server.capabilities.review.revisions import read_branch
from server.capabilities.review.triggers import RankComparison
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places

if TYPE_CHECKING:
    from server.capabilities.review.agents import AgentFlags


def make_review(
    paths: Sequence[Path], base: str | None, agent: AgentFlags | None, *, suppressions: bool = True
) -> SkillReview:
    """Compare the skills below `paths`, or in the whole repository, with those where the branch left `base`.

    Raises:
        ReviewError: there is no repository, or nothing to compare with.
        ConfigurationError: a setting cannot be used.
    """
    settings = settings_of(Machine(current_places()), {})
    branch = read_branch(paths, base)
    with TemporaryDirectory(prefix="skillserve-review-") as scratch:
        before, after = read_versions(branch, settings, Path(scratch))
        changes = find_changes(branch, before, after)
        ranks = RankComparison(before, after, settings)
        skills = tuple(
            ReviewedSkill(
                change,
                compare_findings(change, before, after, suppressions=suppressions),
                compare_diagnostics(change, before, after),
                ranks.of_change(change),
                None if agent is None else measure_agent(change, before, after, agent),
            )
            for change in changes
        )
        others = tuple(ranks.others(changes))
    return SkillReview(branch.base, branch.named, skills, others, "" if agent is None else agent.label, branch.links)
