"""The checks of `skillserve config check`: all files of settings, without starting anything."""
