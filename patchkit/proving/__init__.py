"""Red and green: the tests of a patch, run on a release without it and with it."""
