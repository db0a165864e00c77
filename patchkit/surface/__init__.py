"""What new code relies on, and whether a target still has it as it was."""
