"""Run scripts of skills for clients and the command line: `factory` sets it up, `report` describes the results."""
