"""The rules of the audit, one module for each subject; each module has its `RULES`."""
