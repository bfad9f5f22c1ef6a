"""Write records, and print the number of each 500th once the disk has it; the arguments: folder, name, number."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from server.capabilities.auditlog.audit_log import AuditLog
from tests.capabilities.auditlog.helpers import activation, skills_in

folder, name, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with AuditLog(folder, 365) as log:
    for number in range(most):
        log.record(activation(f"{name}-{number}"))
        if number % 500 == 499:
            while f"{name}-{number}" not in skills_in(folder):
                time.sleep(0.01)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
