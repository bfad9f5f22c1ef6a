"""The rules of the audit, one module for each kind of evidence; each module has its `RULES`."""
