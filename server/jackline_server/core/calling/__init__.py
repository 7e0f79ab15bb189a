"""What the open tool calls of a visit lead to: which may start, when, and what a cut one means."""
