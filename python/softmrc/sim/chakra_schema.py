"""The messages of a Chakra execution trace, built at run time: field names and numbers of MLCommons' schema.

Decides which fields are known (those a network simulation needs; others are skipped as protobuf does); leaves files to
`softmrc.sim.chakra_trace`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from softmrc.errors import UsageError

__all__ = ["NODE_TYPES", "SCALARS", "message_types"]

NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
)
"""Names by number."""
SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
"""Kinds of an attribute's value, in the order of their field numbers 3, 5, 7, ...; those between are lists."""


@cache
def message_types() -> tuple[Any, Any]:
    """Return the classes of GlobalMetadata and Node.

    Raises:
        UsageError: the protobuf library is not installed.
    """
    try:
        from google.protobuf import (  # type: ignore[import-untyped]
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
    except ImportError:
        raise UsageError("Chakra traces need the protobuf library: pip install 'softmrc[chakra]'") from None
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="softmrc/chakra.proto", package="ChakraProtoMsg", syntax="proto3"
    )

    def message(name: str, *fields: tuple[str, int, str], repeated: tuple[str, ...] = ()) -> Any:
        made = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            one = made.field.add(name=field_name, number=number)
            one.label = field.LABEL_REPEATED if field_name in repeated else field.LABEL_OPTIONAL
            if kind[0].isupper():
                one.type = field.TYPE_ENUM if kind == "NodeType" else field.TYPE_MESSAGE
                one.type_name = f".ChakraProtoMsg.{kind}"
            else:
                one.type = getattr(field, f"TYPE_{kind.upper()}")
        return made

    values = [(f"{kind}_val", 3 + 2 * i, kind) for i, kind in enumerate(SCALARS)]
    attribute = message("AttributeProto", ("name", 1, "string"), ("doc_string", 2, "string"), *values)
    attribute.oneof_decl.add(name="value")
    for one in attribute.field[2:]:
        one.oneof_index = 0
    message("GlobalMetadata", ("version", 1, "string"), ("attr", 2, "AttributeProto"), repeated=("attr",))
    types = file.enum_type.add(name="NodeType")
    for number, type_name in enumerate(NODE_TYPES):
        types.value.add(name=type_name, number=number)
    message(
        "Node",
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "NodeType"),
        ("ctrl_deps", 4, "uint64"),
        ("data_deps", 5, "uint64"),
        ("start_time_micros", 6, "uint64"),
        ("duration_micros", 7, "uint64"),
        ("attr", 10, "AttributeProto"),
        repeated=("ctrl_deps", "data_deps", "attr"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = [pool.FindMessageTypeByName(f"ChakraProtoMsg.{n}") for n in ("GlobalMetadata", "Node")]
    return message_factory.GetMessageClass(found[0]), message_factory.GetMessageClass(found[1])
