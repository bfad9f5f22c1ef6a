"""Runs as a server and the command line have them: settings and this machine, and the client in mid-call.

`offering` says whether there are runs at all, `service` performs them. `exchanges` keeps the pieces of work that talk
with clients in the middle of a tool call, `exchange` is such a piece's way to its client, `sealing` guards what goes
out between two rounds, `model` and `user` are the client's model and whoever sits before it; `terminal` is the person
at the command line. What is imported at the start of a server is light; a run imports the rest when it begins.
"""
