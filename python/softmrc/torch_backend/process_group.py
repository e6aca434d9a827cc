"""The process group that torch sees: its method names and option objects, on top of `calls` and `lists`.

Torch's C++ side (DDP, functional collectives, and with them DTensor) reaches a Python process group through those
methods only that `ProcessGroup` lets a subclass replace; `torch.distributed` itself calls the methods by name. Both
find them here, under the names of torch 2.6 and under the later ones.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

import torch
import torch.distributed as dist

from softmrc.errors import PeerError, UsageError
from softmrc.torch_backend.calls import Calls
from softmrc.torch_backend.lists import ListCalls
from softmrc.torch_backend.work import MrcWork, torch_error
from softmrc.torch_backend.world import Member

__all__ = ["MrcProcessGroup"]

_Tensors = list[torch.Tensor]
# Torch's C++ side of releases before this function drops the Python object of a work that it still waits for.
_MAY_FORGET = not hasattr(torch._C._distributed_c10d, "_current_process_group")
_MOST_HELD = 256
_P = ParamSpec("_P")


def _call(
    method: Callable[Concatenate[MrcProcessGroup, _P], MrcWork],
) -> Callable[Concatenate[MrcProcessGroup, _P], MrcWork]:
    """Make a method a call of torch: errors as torch's backends raise them, works kept where they are batched."""

    @wraps(method)
    def call(self: MrcProcessGroup, *args: _P.args, **kwargs: _P.kwargs) -> MrcWork:
        self.member.check()
        try:
            work = method(self, *args, **kwargs)
        except PeerError as error:
            raise torch_error(error) from None
        self._keep(work)
        return work

    return cast("Callable[Concatenate[MrcProcessGroup, _P], MrcWork]", call)


class MrcProcessGroup(dist.ProcessGroup):
    """Ranks that communicate over MRC; made by `init_process_group("mrc")` and `new_group(backend="mrc")`."""

    # Asked of `_get_backend(...)`: what torch would do differently with a backend of its own.
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, store: Any, member: Member, timeout: timedelta) -> None:
        """Stand for this rank in a group.

        Args:
            store: torch's store of this group.
            member: the group as `softmrc.collectives` has it, and this process's place in it.
            timeout: of calls that name none.
        """
        super().__init__(member.rank, member.size)  # type: ignore[call-arg,arg-type]
        self.member = member
        self._store = store
        self._timeout = timeout
        self._name = ""
        self._description = "undefined"
        self._checked = False
        self._started = 0
        self._held: dict[int, MrcWork] = {}
        self._calls = Calls(member.group, member.rank, member.size)
        self._lists = ListCalls(self._calls)
        self._batch = threading.local()
        self._batching = 0
        # Releases that do not call `shutdown` drop the group all the same when it is destroyed.
        weakref.finalize(self, member.leave).atexit = False

    # --- collectives on one tensor a rank ---------------------------------------------------------------------

    @_call
    def allreduce(self, tensors: _Tensors | torch.Tensor, opts: Any = None, timeout: Any = None) -> MrcWork:
        """Reduce in place (`dist.all_reduce`, DDP)."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        _one(tensors, "all_reduce")
        return self._calls.all_reduce(tensors, _op(opts), self._seconds(opts, timeout))

    @_call
    def allreduce_coalesced(self, tensors: _Tensors, opts: Any = None) -> MrcWork:
        """Reduce several tensors in place; they are under way at the same time."""
        return self._calls.all_reduce(tensors, _op(opts), self._seconds(opts))

    @_call
    def reduce(self, tensors: _Tensors, opts: Any) -> MrcWork:
        """Reduce to one rank."""
        tensor = _one(tensors, "reduce")
        return self._calls.reduce(tensor, _op(opts), opts.rootRank, self._seconds(opts))

    @_call
    def broadcast(self, tensors: _Tensors | torch.Tensor, opts: Any, timeout: Any = None) -> MrcWork:
        """Copy one rank's tensor to all."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        root = opts if isinstance(opts, int) else opts.rootRank
        return self._calls.broadcast(_one(tensors, "broadcast"), root, self._seconds(opts, timeout))

    @_call
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> MrcWork:
        """Gather all ranks' inputs into one output."""
        return self._calls.all_gather([output], [input], self._seconds(opts))

    @_call
    def all_gather_single_coalesced(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> MrcWork:
        """Gather several inputs, each into its output."""
        return self._calls.all_gather(outputs, inputs, self._seconds(opts))

    @_call
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> MrcWork:
        """Reduce all ranks' inputs and keep this rank's part."""
        return self._calls.reduce_scatter([output], [input], _op(opts), self._seconds(opts))

    @_call
    def reduce_scatter_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = None
    ) -> MrcWork:
        """Reduce several inputs, each into its output."""
        return self._calls.reduce_scatter(outputs, inputs, _op(opts), self._seconds(opts))

    @_call
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> MrcWork:
        """Send each rank its rows of the input."""
        return self._calls.all_to_all_single(
            output, input, output_split_sizes, input_split_sizes, self._seconds(opts)
        )

    @_call
    def barrier(self, opts: Any = None, timeout: Any = None) -> MrcWork:
        """Wait for all ranks."""
        return self._calls.barrier(self._seconds(opts, timeout))

    # Names of older releases, which torch's C++ side and other libraries still use.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- collectives on lists ---------------------------------------------------------------------------------

    @_call
    def allgather(self, outputs: list[_Tensors], inputs: _Tensors, opts: Any = None) -> MrcWork:
        """Gather all ranks' inputs into a list."""
        mine = _one(inputs, "all_gather")
        return self._lists.all_gather(_one(outputs, "all_gather"), mine, self._seconds(opts))

    @_call
    def allgather_coalesced(self, outputs: list[_Tensors], inputs: _Tensors, opts: Any = None) -> MrcWork:
        """Gather several inputs into lists, one a rank."""
        return self._lists.all_gather_lists(outputs, inputs, self._seconds(opts))

    @_call
    def gather(self, outputs: list[_Tensors], inputs: _Tensors, opts: Any) -> MrcWork:
        """Gather to one rank."""
        into = outputs[0] if outputs else []
        return self._lists.gather(into, _one(inputs, "gather"), opts.rootRank, self._seconds(opts))

    @_call
    def scatter(self, outputs: _Tensors, inputs: list[_Tensors], opts: Any) -> MrcWork:
        """Scatter from one rank."""
        parts = inputs[0] if inputs else []
        return self._lists.scatter(_one(outputs, "scatter"), parts, opts.rootRank, self._seconds(opts))

    @_call
    def reduce_scatter(self, outputs: _Tensors, inputs: list[_Tensors], opts: Any = None) -> MrcWork:
        """Reduce a list and keep this rank's part."""
        mine, parts = _one(outputs, "reduce_scatter"), _one(inputs, "reduce_scatter")
        return self._lists.reduce_scatter(mine, parts, _op(opts), self._seconds(opts))

    @_call
    def alltoall(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> MrcWork:
        """Send each rank its tensor of the list."""
        return self._lists.all_to_all(outputs, inputs, self._seconds(opts))

    # --- messages ---------------------------------------------------------------------------------------------

    @_call
    def send(self, tensors: _Tensors, dst: int, tag: int = 0) -> MrcWork:
        """Send to one rank."""
        return self._calls.send(_one(tensors, "send"), dst, tag, self._seconds(None))

    @_call
    def recv(self, tensors: _Tensors, src: int, tag: int = 0) -> MrcWork:
        """Receive from one rank."""
        return self._calls.receive(_one(tensors, "recv"), src, tag, self._seconds(None))

    @_call
    def recv_anysource(self, tensors: _Tensors, tag: int = 0) -> MrcWork:
        """Receive from whichever rank sends first."""
        return self._calls.receive(_one(tensors, "recv"), None, tag, self._seconds(None))

    # --- the group itself -------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leave the group in good order (`destroy_process_group`); returns also when ranks are stuck."""
        self.member.leave()

    def abort(self) -> None:
        """End the group at once; calls that wait raise."""
        self.member.abort("the process group was aborted")

    def set_timeout(self, timeout: timedelta) -> None:
        """Change the timeout of calls that name none."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks; on rank 0, raise with the names of those that did not come in time."""
        opts_timeout = getattr(timeout, "timeout", timeout)
        seconds = self._seconds(None, opts_timeout)
        try:
            missing = self.member.group.roll_call(seconds)
        except Exception as error:
            raise torch_error(error) from None
        if missing:
            named = missing if wait_all_ranks else missing[:1]
            raise dist.DistBackendError(
                f"monitored_barrier: rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named))} "
                f"did not pass it within {seconds:g} s"
            )

    def get_group_store(self) -> Any:
        """Return torch's store of this group."""
        return self._store

    def size(self) -> int:
        """Return how many ranks the group has."""
        return self.member.size

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self.member.rank

    def name(self) -> str:
        """Return the name of the backend."""
        return "mrc"

    # Under these names torch's C++ side asks.
    getBackendName = _get_backend_name = name
    getRank = rank
    getSize = size

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupName = _set_group_name
    setGroupDesc = _set_group_desc

    def getGroupName(self) -> str:
        """Return torch's name of the group."""
        return self._name

    def getGroupDesc(self) -> str:
        """Return torch's description of the group."""
        return self._description

    group_name = property(getGroupName)  # type: ignore[assignment]
    group_desc = property(getGroupDesc)  # type: ignore[assignment]

    @property
    def _device_types(self) -> list[torch.device]:
        """What torch asks before object collectives and asynchronous checkpoints."""
        kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        return [torch.device(kind) for kind in kinds]

    def _get_backend(self, device: torch.device) -> Any:
        return self

    def _get_sequence_number_for_group(self) -> int:
        return self._started

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to do: calls are counted from 0 on every rank."""

    def _start_coalescing(self, device: torch.device) -> None:
        self._batch.works = []
        self._batching += 1

    def _end_coalescing(self, device: torch.device) -> MrcWork:
        works: list[MrcWork] = self._batch.works
        self._batch.works = None
        self._batching -= 1
        return MrcWork.of_works(works, [tensor for work in works for tensor in work.tensors])

    def _keep(self, work: MrcWork) -> None:
        self._started += 1
        if _MAY_FORGET:
            work.hold(self._held, _MOST_HELD)
        if self._batching:
            batch = getattr(self._batch, "works", None)
            if batch is not None:
                batch.append(work)

    def _seconds(self, opts: Any, timeout: Any = None) -> float:
        """Return the timeout of a call, and see to what has to be seen to before each."""
        if not self._checked:
            self._check_config()
        given = timeout if timeout is not None else getattr(opts, "timeout", None)
        if not isinstance(given, timedelta) or given <= timedelta(0):
            given = self._timeout
        return given.total_seconds()

    def _check_config(self) -> None:
        """Refuse to stand in for other backends: torch hands a Python process group all devices.

        Raises:
            UsageError: the group was made for "mrc" and others at the same time.
        """
        config = dist.distributed_c10d._world.pg_backend_config.get(self, "")
        others = sorted({pair.partition(":")[2] for pair in config.split(",") if ":" in pair} - {"mrc"})
        if others:
            raise UsageError(
                f"process group {config!r}: this torch gives all tensors of a group to mrc once it is named, "
                f'so {", ".join(others)} would never be used; use init_process_group("mrc"), and '
                f'new_group(backend="{others[0]}") for the other tensors'
            )
        self._checked = True


def _one(items: Sequence[Any], call: str) -> Any:
    if len(items) != 1:
        raise UsageError(
            f"{call}: takes one tensor (or list) a rank, got {len(items)}; call it once for each"
        )
    return items[0]


def _op(opts: Any) -> Any:
    if opts is None:
        return dist.ReduceOp.SUM
    return getattr(opts, "reduceOp", opts)
