"""What names mean: scopes, bindings, uses, and what new code relies on."""
