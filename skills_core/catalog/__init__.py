"""The catalog, fourth step of the data: which skills are active, and which of them a name means or a caller may see."""
