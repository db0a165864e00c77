"""What there is to know of stored patches: their story, how two series differ, a page of all."""
