"""Durable runs: each finished step is recorded in a database, and interrupted runs are completed.

`engine` opens the database and starts, joins, lists and cancels runs. Behind it stand `lifecycle` (launch and shutdown
of dbos), `worker` (the runs of this process and their journals), `heartbeat` (lease, recovery, takeover),
`dbos_adapter` and `dbos_internals`. `client` lists and cancels runs without an engine. Both import dbos, which does the
recording, so import them only where they are used. `store` and `recorded_run` hold the values, and `leases` and
`postgres` tell which workers are alive. A job sees only a `Journal`.
"""
