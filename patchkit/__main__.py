"""`python -m patchkit`: the command line."""

from patchkit.cli import main

if __name__ == "__main__":
    main()
