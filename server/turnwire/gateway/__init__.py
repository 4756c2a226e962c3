"""The gateway: WebSockets and plain HTTP. The only package that knows the network."""
