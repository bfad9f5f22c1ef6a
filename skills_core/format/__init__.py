"""Parsing of skills: from the bytes of a SKILL.md to typed frontmatter, body and diagnostics."""
