"""Foreign patches into a stored series, and a stored series out into what other tools read."""
