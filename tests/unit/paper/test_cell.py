from __future__ import annotations

from softmrc.paper.cell import Cell, CellError, run_cells


def double(x: int) -> dict[str, int]:
    if x < 0:
        raise ValueError(f"{x} is negative")
    return {"twice": 2 * x}


def stop(x: int) -> dict[str, int]:
    raise KeyboardInterrupt


def test_equal_keys_are_run_once_and_the_dearest_first():
    cells = [Cell.of("a", double, 1, x=1), Cell.of("b", double, 5, x=2), Cell.of("a", double, 1, x=1)]
    seen = []
    results, errors, seconds, interrupted = run_cells(cells, 1, lambda *step: seen.append(step))
    assert results == {"a": {"twice": 2}, "b": {"twice": 4}}
    assert not errors
    assert not interrupted
    assert seconds.keys() == {"a", "b"}
    assert seen == [(1, 2, 5, 6, "b"), (2, 2, 6, 6, "a")]


def test_an_error_does_not_stop_the_others():
    results, errors, _, _ = run_cells([Cell.of("bad", double, 9, x=-1), Cell.of("good", double, x=1)], 1)
    assert results == {"good": {"twice": 2}}
    assert errors == [CellError("bad", "ValueError: -1 is negative")]


def test_an_interrupt_keeps_what_was_done():
    results, _, _, interrupted = run_cells([Cell.of("a", double, 9, x=1), Cell.of("b", stop, x=1)], 1)
    assert interrupted
    assert results == {"a": {"twice": 2}}


def test_processes_give_the_same():
    cells = [Cell.of(str(n), double, x=n) for n in range(4)]
    assert run_cells(cells, 2)[0] == run_cells(cells, 1)[0]
