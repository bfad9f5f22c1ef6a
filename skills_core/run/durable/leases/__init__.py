"""Leases tell which workers are alive: runs of a dead worker are taken over, those of a live one never.

`files` serves the processes of one machine that share a SQLite file, `postgres` the workers of one PostgreSQL database.
"""

from skills_core.run.durable.leases.lease import Lease, LeaseLostError, new_worker

__all__ = ["Lease", "LeaseLostError", "new_worker"]
