"""The only maker of HTTP clients: every address is checked at the point of connecting."""
