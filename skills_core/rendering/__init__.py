"""Render the texts that models read: one renderer for tools, prompts, the command line and runs.

`activation` renders one skill, `parts` the beginning of one that is too long, and `catalog` the list of all skills.
`recipient` describes who reads the text, `adaptation` explains a skill's tools and files to that recipient, and
`escaping` keeps foreign text inside our tags.
"""
