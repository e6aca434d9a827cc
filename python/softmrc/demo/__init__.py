"""The demonstration: two processes move a file over many paths while planes and paths fail.

Decides what fails when, what is measured and what must hold; leaves the transfer to `softmrc.endpoint`.
"""
