"""Audit skills: static rules over every file of a skill, without a model and without running anything.

`skill` reads a skill and `code` the programs and commands in it. `rules` has a module for each kind of evidence, and
`engine` has the table of all rules and applies it, and the suppressions, to a skill.
"""
