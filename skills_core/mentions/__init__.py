"""Find what the text of a skill mentions: tools by name, and the skill's own files by path.

No search needs a model. `tools` finds the names that hosts give their tools, `paths` finds files of the skill's
folder, `scripts` finds scripts that this folder lacks, and `markdown` separates prose from fenced code.
"""
