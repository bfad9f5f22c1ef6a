"""Audit skills: static rules over every file of a skill, without a model and without running anything.

`rules` has one module for each subject, `registry` composes them into one table, and `audit` applies the table to a
skill and its suppressions.
"""
