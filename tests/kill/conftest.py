"""A folder to work in, and the trees that the commands open."""

from tests.cli.conftest import check, folder, trees

__all__ = ["check", "folder", "trees"]
