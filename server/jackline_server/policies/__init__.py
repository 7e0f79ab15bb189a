"""Those who are asked around runs: hooks, policy services, and the masks for personal data."""
