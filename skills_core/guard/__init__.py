"""Decide on tool calls by patterns over the tool's name and its arguments, as JSON and string by string.

`arguments` writes the texts of a call that are matched, and `guard` decides.
`skills_core.texts` compiles the patterns.
"""

from skills_core.guard.guard import Decision, Guard, Rule, Verdict, log_decision, rules_of

__all__ = ["Decision", "Guard", "Rule", "Verdict", "log_decision", "rules_of"]
