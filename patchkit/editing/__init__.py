"""Patches edited where they are stored: a work tree to edit in, and the series written anew."""
