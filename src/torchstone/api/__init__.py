"""The public Python API: one function a capability, request in, result out."""
