"""When a schedule fires: times as users write them, firings across changes of clocks, policies and states.

Pure. Nothing here reads a clock: callers pass the current time and the zone.
"""
