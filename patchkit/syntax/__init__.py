"""Python source as a tree over its own bytes: nodes, outlines, matches, typed edits."""
