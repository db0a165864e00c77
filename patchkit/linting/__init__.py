"""What is wrong with the headers of patches, rule by rule, and the repair of what is mechanical."""
