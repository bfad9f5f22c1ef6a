"""Write the files of the commands `init` and `validate --fix`."""
