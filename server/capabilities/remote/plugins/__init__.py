"""Plugins: folders of skills that come from elsewhere, and are updated from there.

`installed` has where each comes from, and the receipt of what was installed. `folder` holds the plugins of this user.
`staging` writes a new version beside them, with the files of an archive or a git repository from `retrieval`, and
checks it; `operations` installs, updates and removes.
"""
