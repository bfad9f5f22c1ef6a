"""One iteration of evals: `session` carries out a `plan`, `runner` performs and grades the runs, `files` keeps them."""
