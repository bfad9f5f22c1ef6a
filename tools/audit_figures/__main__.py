"""Print the figures of the audit; with `--faults`, also each case that a rule misses or finds wrongly."""

from __future__ import annotations

import sys

from tools.audit_figures.manifests import Part, read_cases
from tools.audit_figures.measure import measure
from tools.audit_figures.page import tables

for line in tables():
    sys.stdout.write(f"{line}\n")
if "--faults" in sys.argv:
    for part in Part:
        for fault in measure(case for case in read_cases() if case.part is part).faults:
            sys.stdout.write(f"{part}: {fault}\n")
