"""Help for authors of skills: advice for each diagnostic, and automatic fixes for mechanical faults.

`fixes` applies all fixes to a `draft`; `typos` finds misspelt fields and `name_fix` repairs names. Nothing else in the
core imports this package, and it reads and writes no files.
"""
