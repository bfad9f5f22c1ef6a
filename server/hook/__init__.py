"""The guard as a hook: a host runs this process before each call of a tool, and does what it answers.

`call` reads what the host says, `settings` and `sources` say whose patterns count, `judging` decides, `answer` writes
the answer, and `run` is all of it. `options` reads the plain command lines. It is fast because it imports little:
nothing here may import what listens, serves, or reads a command line for people. `server.__main__` runs it and makes
every failure, that of an import here too, a refusal.
"""
