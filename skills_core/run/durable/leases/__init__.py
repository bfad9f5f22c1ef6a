"""Which workers are alive, so that the runs of a dead one are taken over, and those of a live one never.

`files` for the processes of one machine beside a SQLite file, `postgres` for the workers on one PostgreSQL.
"""

from skills_core.run.durable.leases.lease import Lease, LeaseLostError, new_worker

__all__ = ["Lease", "LeaseLostError", "new_worker"]
