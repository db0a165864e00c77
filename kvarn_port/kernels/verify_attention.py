"""Stand-in until the kernel is here."""


class Scratch:
    """Nothing."""

    @classmethod
    def allocate(cls, **sizes):
        """Return nothing."""
        return cls()


def verify_attention(*args, **kwargs):
    """Return nothing."""
