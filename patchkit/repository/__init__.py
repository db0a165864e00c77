"""The user's repository: what is stored, what is written, and where a move stops."""
