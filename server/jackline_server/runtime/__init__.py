"""The imperative shell: drives runs, and declares the ports that the ring implements."""
