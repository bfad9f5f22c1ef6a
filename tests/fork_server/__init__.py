"""Start the product's processes by forking an interpreter that has already imported it.

Without this, imports in the processes that tests start take nine tenths of a test run. `client` runs in the process of
the tests: it replaces the function by which `subprocess` starts a program, and passes each `python -m server …` to
`main`, a separate interpreter that has imported the packages and forks. The result is an ordinary process: it has its
own pid, pipes, sockets, signals, working directory and environment, is a child of the process that requested it, and
runs `server/__main__.py` from the first line.

Tests marked `cold_start` start their processes without a fork. So do all tests on systems other than Linux,
and requests that a fork cannot fulfill: another user, a `preexec_fn`, other settings of the interpreter.
"""
