"""Evals as a person runs them: processes, the workspace on disk, progress and the report.

`session` carries out an eval: `skill_versions` provides the skill and its baseline, `iterations` the files on disk,
`runner` performs the runs by an agent (`command_agent`, `own_agent`) in a `scratch` folder each, and grades them.
"""
