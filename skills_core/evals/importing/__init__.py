"""Sets of evals in the forms of other tools, as cases and trigger queries of ours.

`found` is what an import makes, `sources` reads the files, `checks` puts the conditions of other tools into commands,
and there is a module for each tool. `formats` tells the forms apart. Nothing of what is read is ever run.
"""
