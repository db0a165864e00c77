"""A plain patch on every release: which one it was made on, and what each makes of it."""
