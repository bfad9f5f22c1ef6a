"""Where files lie and how they are read: the boundary that nothing gets round."""
