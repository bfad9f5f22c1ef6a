"""Convention files such as `AGENTS.md`: what their names and their text say in place of frontmatter.

Rules: adk-skill's.
"""

from __future__ import annotations

from skills_core.format.frontmatter import DESCRIPTION_LIMIT, Frontmatter

__all__ = ["CONVENTIONS", "instruct_by_convention"]

CONVENTIONS = {
    "AGENTS.MD": "agents",
    "AGENT.MD": "agents",
    "CLAUDE.MD": "claude",
    "GEMINI.MD": "gemini",
    "COPILOT.MD": "copilot",
    "SKILLS.MD": "skills",
    "SOUL.MD": "soul",
}
"""Convention files, in upper case as theirs does not matter, and the names of the skills that they make."""

_FIRST_LINE = 120
# Characters of a first line that stands for a description, where it is no heading.


def instruct_by_convention(file_name: str, text: str) -> Frontmatter:
    """Return what the name and the text of a convention file say in place of frontmatter."""
    name = CONVENTIONS[file_name.upper()]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    heading = first.lstrip("#").strip() if first.startswith("#") else ""
    description = heading[:DESCRIPTION_LIMIT] or first[:_FIRST_LINE] or f"Instructions of {file_name}"
    return Frontmatter(raw={}, metadata={}, name=name, description=description, tags=("convention", f"{name}-md"))
