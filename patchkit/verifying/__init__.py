"""Whether a tree holds a series: hunk by hunk, by content and by definition."""
