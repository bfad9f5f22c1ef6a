"""Skills as tests of the audit write them; attacks are put together from pieces, so that scanners pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skills_core.audit.engine import audit
from skills_core.audit.skill import AuditedFile, SkillUnderAudit

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.audit.findings import Finding


@pytest.fixture(scope="session")
def make_audited() -> Callable[..., SkillUnderAudit]:
    """Make a skill of a body, fields of the frontmatter and further files."""

    def make(
        body: str = "Do it.\n", files: dict[str, str | bytes] | None = None, /, *, head: str = "", description: str = ""
    ) -> SkillUnderAudit:
        described = description or "Extracts text from PDF files. Use when the user has a PDF form."
        main = f"---\nname: pdf\ndescription: {described}\n{head}---\n{body}"
        texts = {"SKILL.md": main, **(files or {})}
        return SkillUnderAudit.of(
            "pdf", [AuditedFile(path, raw.encode() if isinstance(raw, str) else raw) for path, raw in texts.items()]
        )

    return make


@pytest.fixture(scope="session")
def found_in(make_audited: Callable[..., SkillUnderAudit]) -> Callable[..., tuple[Finding, ...]]:
    """Audit such a skill."""

    def find(*arguments: object, **fields: str) -> tuple[Finding, ...]:
        return audit(make_audited(*arguments, **fields))

    return find


@pytest.fixture(scope="session")
def severities(found_in: Callable[..., tuple[Finding, ...]]) -> Callable[..., dict[str, str]]:
    """Audit such a skill; return the worst severity of each rule that found something."""

    def worst(*arguments: object, **fields: str) -> dict[str, str]:
        ranked = sorted(found_in(*arguments, **fields), key=lambda each: each.severity.rank)
        return {each.rule: each.severity.value for each in ranked if not each.suppressed}

    return worst
