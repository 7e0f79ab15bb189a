"""Who calls: tokens, principals and scopes."""
