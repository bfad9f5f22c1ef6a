"""Find what the text of a skill mentions, without a model.

`tools` finds the names that hosts give their tools, `paths` finds files of the skill's folder and scripts that it
lacks, and `markdown` separates prose from fenced code.
"""
