"""Runs that outlive their process: each finished step is recorded in a database, and what was interrupted is completed.

`engine` opens the database and starts, joins, lists and cancels runs; it alone, with `journal`, `performer`, `watch`,
`plain_json`, `faults` and `innards` behind it, imports dbos, which does the recording, so it is imported where it is
used. `store`, `runs`, `terms` and `errors` are the words for it, and `leases` tell which processes are alive. A job
knows nothing of all this: it is given a `Journal`.
"""
