"""Durable runs: each finished step is recorded in a database, and interrupted runs are completed.

`engine` opens the database and starts, joins, lists and cancels runs. Behind it stand `lifecycle` (launch and shutdown
of dbos), `worker` (the runs of this process), `journal` (their steps), `heartbeat` (lease and recovery), `takeover`
(which interrupted runs continue), `dbos_context`, `dbos_status`, `json_serializer`, `database_errors` and
`dbos_internals`. `client` lists and cancels runs without an engine. Both import dbos, which does the recording, so
import them only where they are used. `store`, `recorded_run`, `worker_config` and `errors` hold the values, and
`leases` tell which workers are alive. A job sees only a `Journal`.
"""
