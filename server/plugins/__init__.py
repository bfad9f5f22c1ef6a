"""Plugins: folders of skills that come from elsewhere, and are updated from there.

`origins` reads where from: an MCP server, a folder, an archive (`archives`) or a git repository (`git`), whose skills
`local_skills` copies. `folder` holds the plugins of this user, `record` what is known of each, `staging` brings and
checks a new version beside them, `changes` compares it with the installed one, and `operations` installs, updates
and removes.
"""
