"""Skills as files to download, in the form that installers of Agent Skills read."""
