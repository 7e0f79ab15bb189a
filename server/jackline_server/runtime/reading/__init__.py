"""What was recorded, read again and followed."""
