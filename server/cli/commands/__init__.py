"""The commands of the command line, one module for each thing that people come for."""
