"""The gRPC door: a grpc.aio server, its one interceptor, and thin servicers."""
