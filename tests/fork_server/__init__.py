"""Start the product's processes by forking an interpreter that has imported it already.

Nine tenths of what a test run took were the imports of the processes that tests start. `client` lives in the process
that runs the tests: it takes the place of the function by which `subprocess` starts a program, and hands each
`python -m server …` to `main`, an interpreter of its own that has imported the packages and forks. The child is a
process like any other: its pid, pipes, sockets, signals, working directory and environment are as real as before,
it is a child of the process that asked for it, and it runs `server/__main__.py` from its first line.

Tests marked `cold_start` start their processes from nothing, and so does every test where the system cannot do this
(it takes a Linux), or where a process is asked for in a way that a fork cannot give (another user, a
`preexec_fn`, other settings of the interpreter).
"""
