"""A series in order: what its patches need of each other, and the run over all of them."""
