"""Webhooks: what commits owe to whom, and how it is sent."""
