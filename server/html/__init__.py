"""What every HTML page of skillserve shares: templates and their rules, the style sheet, charts, diffs and Markdown.

The page of a server and the report of evals are made of these.
"""
