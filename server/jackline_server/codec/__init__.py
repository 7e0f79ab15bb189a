"""Facts, plans, commands and runs as protobuf and back, total both ways."""
