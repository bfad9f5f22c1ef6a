"""Durable runs: each finished step is recorded in a database, and interrupted runs are completed.

`engine` opens the database and starts, joins, lists and cancels runs. Behind it stand `lifecycle` (launch and shutdown
of dbos), `worker` (the runs of this process and their journals), `heartbeat` (lease, recovery, takeover), and
`dbos_adapter`. `client` lists and cancels runs without an engine. Both import dbos, which does the recording, so import
them only where they are used. `store` and `recorded_run` hold the values, and `store` and `postgres` the leases, which
tell which workers are alive. A job sees only a `Journal`.
"""
