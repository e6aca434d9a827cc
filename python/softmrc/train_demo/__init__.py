"""The training demonstration: DDP over MRC while the network fails, the quiet run and a gloo twin beside it.

`plan` decides what fails when, `rank` is one training process, `places` where ranks run and how things break, `run`
one run from start to end, `verdict` what was promised and what came of it. Only `model` and `rank` import torch.
"""
