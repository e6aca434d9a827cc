"""Every tensor gives the right result or a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.torch.ranks import Ranks

_SAYS = {
    "expanded": "share memory",
    "overlapping": "share memory",
    "expanded output": "share memory",
    "sparse": "to_dense",
    "quantized": "quantized",
    "meta": "meta",
    "fp8 sum": "no reduction of torch.float8",
    "short output": "elements",
    "long input": "elements",
    "too few": "one a rank",
    "uneven rows": "share equally",
    "wrong splits": "add up to",
    "list of wrong sizes": "as large as",
    "two types": "one element type",
}


@pytest.mark.parametrize("size", [2, 3])
def test_field_b39_what_has_no_right_answer_is_refused(world: Callable[[int], Ranks], size: int) -> None:
    from tests.torch import tensor_cases

    for said in world(size).call(tensor_cases.refusals):
        assert said.keys() == _SAYS.keys()
        for what, text in said.items():
            assert _SAYS[what] in text, what


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("case", ["expanded_inputs", "aliases", "lazy_views", "gradients", "uneven"])
def test_tensors_of_all_kinds(world: Callable[[int], Ranks], size: int, case: str) -> None:
    from tests.torch import tensor_cases

    world(size).call(getattr(tensor_cases, case))


def test_different_sizes_are_an_error_on_all_ranks(start: Callable[..., Ranks]) -> None:
    from tests.torch import tensor_cases

    said = start(3, timeout=10).call(tensor_cases.different_sizes)
    for text in said:
        assert "400" in text
        assert "800" in text
        assert "rank 2" in text


@pytest.mark.parametrize("size", [2, 4])
def test_sums_agree_with_gloo_and_with_themselves(world: Callable[[int], Ranks], size: int) -> None:
    from tests.torch import tensor_cases

    ranks = world(size)
    assert max(ranks.call(tensor_cases.against_gloo)) < 1e-5
    bits = ranks.call(tensor_cases.same_bits)
    assert len({one for each in bits for one in each}) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_more_than_two_gibibytes(start: Callable[..., Ranks]) -> None:
    from tests.torch import tensor_cases

    start(2, timeout=100).call(tensor_cases.large, (1 << 31) + 17, timeout=110)
