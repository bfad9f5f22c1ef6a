"""Runs of skills and workflows, for servers and for the command line.

`supervisor` holds the `service` of a server, which `factory` builds from the library and the settings. `skill_runner`
runs one skill with the tools of `toolset`; `attached` tracks the callers that wait for a run. `run_list` lists recorded
runs and their traces. A server imports only `supervisor` and `telemetry` when it starts.
"""
