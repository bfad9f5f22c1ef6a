"""Runs that outlive their process: each finished step is recorded in a database, and what was interrupted is completed.

`engine` opens the database and starts, joins, lists and cancels runs, with `launching`, `journal`, `performer`,
`watch`, `takeover`, `outside`, `plain_json`, `faults` and `innards` behind it. `client` lists and cancels runs without
performing any. Both import dbos, which does the recording, so they are imported where they are used.
`store`, `runs`, `config` and `errors` are the words for it, and `leases` tell which processes are alive. A job knows
nothing of all this: it is given a `Journal`.
"""
