"""Settings: one frozen model, built once from flags, environment, `skillserve.toml` and defaults, in that order.

No other module reads the environment for settings; it receives values. Each section is
a struct; the strings below its fields document them, and `docs/reference/settings.md` is generated from these strings.

The `skillserve.toml` in the working directory may be part of a repository, so it is not one of these layers. If the
project is trusted, the file can set the values of `ProjectSettings` for the project's own skills; see `project_file`.
"""
