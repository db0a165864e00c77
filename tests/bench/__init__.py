"""How long a rebase takes, by the size of the series."""
