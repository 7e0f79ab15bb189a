"""What the doors share: checks of requests, scopes, statuses, views and page tokens. No transport."""
