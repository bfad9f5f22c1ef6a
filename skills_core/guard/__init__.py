"""Decide on tool calls.

`guard` decides by patterns over a tool's name and its arguments, `allowed_tools` by what a skill permits.
`argument_validator` checks arguments against a schema. All three meet in `tool_gate`, the gate for the calls of a run.
`tool` describes a tool and a call.
"""
