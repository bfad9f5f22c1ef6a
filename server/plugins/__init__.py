"""Plugins: folders of skills that come from another server, and are updated from it.

`folder` holds the plugins of this user, `record` what is known of each, `staging` fetches, verifies and checks a new
version beside them, `changes` compares it with the installed one, and `operations` installs, updates and removes.
"""
