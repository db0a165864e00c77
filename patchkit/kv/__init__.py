"""KV pages: what a format takes, how pages and groups come about, and what fits into memory."""
