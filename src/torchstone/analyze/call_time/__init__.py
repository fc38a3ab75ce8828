"""Where the time of a call goes: kinds of kernels, two calls compared, hints."""
