"""The fabric simulator: the engine that runs on the wire, in virtual time, from two hosts to 131,072."""
