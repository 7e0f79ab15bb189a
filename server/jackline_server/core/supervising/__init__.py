"""What a supervisor makes of a step: when a rule holds, when its judge is asked, and what follows."""
