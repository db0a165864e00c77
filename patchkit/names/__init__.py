"""What names mean: scopes, bindings and uses."""
