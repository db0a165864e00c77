"""An installed tree: found without importing it, patched in place, and taken back."""
