"""The Jackline server: hosts bounded LLM agent loops behind a gRPC contract."""
