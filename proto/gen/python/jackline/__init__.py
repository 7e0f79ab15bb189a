"""The generated contract of Jackline."""
