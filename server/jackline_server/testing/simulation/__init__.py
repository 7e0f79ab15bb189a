"""The parts of the simulator: its loop, and the world that it puts the real runtime into."""
