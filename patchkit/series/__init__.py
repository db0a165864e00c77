"""A release folder as a value: series, overlay, and the anchors beside each patch."""
