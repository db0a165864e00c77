"""Refactorings that mean the same on target and truth, one noun a module."""
