"""Several configurations as one network: a typed model, what is wrong with it, and pictures of it. Opens nothing."""
