"""Patched wheels: upstream's file rewritten, checked, and taken back."""
