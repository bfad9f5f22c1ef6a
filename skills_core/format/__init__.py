"""From bytes to typed frontmatter: what a SKILL.md says, and what is wrong with it."""
