"""One iteration of evals: `session` carries out a `plan`, `runner` performs the runs, `files` keeps them."""
