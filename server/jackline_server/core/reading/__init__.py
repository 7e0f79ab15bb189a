"""What a run's state says, for the fold and for decisions alike: the conversation, the time, who is asked.

Owns no change of the state and no decision. Imports the vocabulary of the core only.
"""
