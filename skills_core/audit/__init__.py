"""Audit skills: static rules over every file of a skill, without a model and without running anything.

`skill` reads a skill, `code_units` finds the programs and commands in it, and `effects` says what they read, write and
send. `rules` has a module for each kind of evidence, and `engine` has the table of all rules and applies it, and the
suppressions, to a skill.
"""
