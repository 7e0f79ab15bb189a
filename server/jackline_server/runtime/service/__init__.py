"""What is asked of the service: starting, forking, steering, looking."""
