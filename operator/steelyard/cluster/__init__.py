"""The seam to Kubernetes: `protocol` is what the controller may ask, `kubectl` what the command line asks through."""
