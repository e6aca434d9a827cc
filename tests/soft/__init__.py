"""Tests against labs of the user-space switch: no root, no namespaces, loopback alone."""
