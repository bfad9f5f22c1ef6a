"""The format, second step of the data: from the bytes of a SKILL.md to typed frontmatter, body and diagnostics."""
