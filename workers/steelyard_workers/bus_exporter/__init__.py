"""Says how full the buffers are: reads the bus server's own account, beside it in its pod, and tells Prometheus."""
