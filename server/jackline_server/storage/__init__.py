"""Stores: implementations of the runtime's store ports. One conformance suite judges them all."""
