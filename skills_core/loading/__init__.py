"""Loading, third step of the data: from the files of a source to the contents of its skills, all or what changed."""
