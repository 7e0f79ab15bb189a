"""Functions in processes of their own: what a function may break is its process, and that ends with its call.

`process` is the server's side, `child` the program that runs there, `frames` what the two say to each other.
"""
