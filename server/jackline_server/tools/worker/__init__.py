"""Step kind `worker`: tools that connected programs serve."""
