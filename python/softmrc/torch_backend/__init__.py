"""torch.distributed over MRC: the process group behind `init_process_group("mrc")`.

This package is the only one that imports torch, and this file does not: torch itself imports it at every start, for
`entry`. What users call is in `softmrc.torch`.
"""
