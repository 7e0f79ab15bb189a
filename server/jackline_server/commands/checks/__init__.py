"""What `jackline doctor` looks at. Nothing here changes anything on disk.

findings     what a look found: ok, a warning, or a problem, with what to do
machine      Python, packages, the data folder, the address to listen on
outside      models and connections: keys, scripts, hosts, MCP servers and their pins
workflows    the folder of workflows, compiled against all of that
"""
