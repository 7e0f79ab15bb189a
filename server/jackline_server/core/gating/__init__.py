"""Hooks, policies, guardrails and judges: who is asked, and what the answers lead to."""
