"""Convention files (`AGENTS.md` and others): a name and a description without frontmatter. Rules: adk-skill's."""

from __future__ import annotations

from skills_core.format.frontmatter import DESCRIPTION_LIMIT, Frontmatter

__all__ = ["CONVENTIONS", "convention_frontmatter"]

CONVENTIONS = {
    "AGENTS.MD": "agents",
    "AGENT.MD": "agents",
    "CLAUDE.MD": "claude",
    "GEMINI.MD": "gemini",
    "COPILOT.MD": "copilot",
    "SKILLS.MD": "skills",
    "SOUL.MD": "soul",
}
"""The names of convention files, compared in upper case, and of the skills that they make."""

_FIRST_LINE = 120
# Characters of the first line that are the description if it is not a heading.


def convention_frontmatter(file_name: str, text: str) -> Frontmatter:
    """Return the frontmatter that a convention file's name and text imply."""
    name = CONVENTIONS[file_name.upper()]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    # A line of dashes begins frontmatter that cannot be read, or is a rule; neither describes anything.
    first = "" if first and set(first) == {"-"} else first
    heading = first.lstrip("#").strip() if first.startswith("#") else ""
    description = heading[:DESCRIPTION_LIMIT] or first[:_FIRST_LINE] or f"Instructions of {file_name}"
    return Frontmatter(raw={}, metadata={}, name=name, description=description, tags=("convention", f"{name}-md"))
