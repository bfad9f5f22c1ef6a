"""The tools of a run, what permits their use, and the gate that every call goes through."""
