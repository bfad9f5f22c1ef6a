"""A skill as the rules see it: every file, what its files name, the packages it installs and where it sends data."""
