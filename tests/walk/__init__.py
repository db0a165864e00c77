"""Pages of docs that are run: what they show is what happens."""
