"""The guard as a hook: a host runs this process before each tool call and acts on the answer.

`call` parses what the host sends and words the answer, `settings` reads the user's patterns, `decide` collects those of
skills and decides, and `run` connects them. `options` parses plain command lines. The process is fast because it
imports little: nothing here may import the server, a transport or the command line. `server.__main__` runs it and turns
every failure, a failed import included, into a refusal.
"""
