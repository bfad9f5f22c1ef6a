"""What runs need of the protocol: the client's model and its user, in the middle of a tool call.

`exchanges` keeps the pieces of work that talk with clients, `exchange` is such a piece's way to its client, `sealing`
guards what goes out between two rounds, `model` and `user` are the client's model and whoever sits before it. It
stands on `skills_core.run`; what that imports beyond the core is imported when a run needs it.
"""
