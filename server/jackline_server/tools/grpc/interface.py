"""Descriptors as methods: the messages of each, and what of it is pinned.

Owns a pool of its own for each interface, so that two servers may have two messages of one name. Descriptors
come from servers: they are checked by the pool, and counted.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet, MethodOptions
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject
from jackline_server.runtime.pinned_tools import Catalog, PinnedTool
from jackline_server.tools.grpc.comments import comments_of
from jackline_server.tools.grpc.schemas import NoSchema, schema_of
from jackline_server.tools.results import clean_text

MAX_FILES = 500
MAX_BYTES = 8 * 1024 * 1024
MAX_METHODS = 1_000
_OWN_SERVICES = "grpc."
_WELL_KNOWN: Mapping[str, bytes] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}
_HINTS: Mapping[int, JsonObject] = {
    MethodOptions.NO_SIDE_EFFECTS: {"readOnlyHint": True},
    MethodOptions.IDEMPOTENT: {"idempotentHint": True},
}


class BadDescriptors(ValueError):
    """What a server or a file says that there is can't be used. The message is one line."""


@frozen
class Method:
    """A unary method. `path` is what goes over the wire."""

    path: str
    request: type[Message]
    reply: type[Message]


@frozen
class Interface:
    """What a server serves: each method described by its full name, and those that can be called."""

    catalog: Catalog
    methods: Mapping[str, Method]
    pool: DescriptorPool


def files_of_set(data: bytes) -> list[bytes]:
    """The files of a file descriptor set. Raises BadDescriptors."""
    try:
        return [file.SerializeToString() for file in FileDescriptorSet.FromString(data).file]
    except DecodeError:
        raise BadDescriptors(
            "it is no file descriptor set, as `protoc --descriptor_set_out` writes it"
        ) from None


def read_file(data: bytes) -> FileDescriptorProto:
    """One file. Raises BadDescriptors."""
    try:
        proto = FileDescriptorProto.FromString(data)
    except DecodeError:
        raise BadDescriptors("a file among the descriptors is none") from None
    # Text that is not UTF-8 comes as bytes, whatever its type says.
    if not all(isinstance(one, str) for one in (proto.name, *proto.dependency)):  # pyright: ignore[reportUnnecessaryIsInstance] - see above
        raise BadDescriptors("a file among the descriptors has a name that is no text")
    return proto


def interface_of(files: Sequence[bytes]) -> Interface:
    """Everything that these files describe. CPU only, tenths of a second at most. Raises BadDescriptors."""
    if len(files) > MAX_FILES or sum(map(len, files)) > MAX_BYTES:
        raise BadDescriptors(f"there are more than {MAX_FILES} files of descriptors, or {MAX_BYTES} bytes")
    try:
        made = _read(files)
    except BadDescriptors:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, DecodeError):
        # They come from outside, and the library has no one error for what is wrong with them.
        raise BadDescriptors("the descriptors contradict each other, or name what is not there") from None
    if not made.catalog:
        raise BadDescriptors("there is no method among the descriptors")
    return made


def _read(files: Sequence[bytes]) -> Interface:
    protos = {proto.name: proto for proto in map(read_file, files)}
    pool = DescriptorPool()
    for data in _in_order(protos):
        pool.AddSerializedFile(data)
    comments = {name: text for proto in protos.values() for name, text in comments_of(proto).items()}
    catalog: dict[str, PinnedTool] = {}
    methods: dict[str, Method] = {}
    for method in _methods(protos.values(), pool):
        name = f"{method.containing_service.full_name}/{method.name}"
        if len(catalog) >= MAX_METHODS:
            raise BadDescriptors(f"there are more than {MAX_METHODS} methods")
        catalog[name] = _described(name, method, comments)
        if not method.client_streaming and not method.server_streaming:
            methods[name] = Method(
                path=f"/{name}",
                request=GetMessageClass(method.input_type),
                reply=GetMessageClass(method.output_type),
            )
    return Interface(catalog=catalog, methods=methods, pool=pool)


def _in_order(protos: Mapping[str, FileDescriptorProto]) -> Iterator[bytes]:
    """The files, each behind those that it imports. Raises BadDescriptors for a cycle and a missing file."""
    done: set[str] = set()
    waiting: list[tuple[str, bool]] = [(name, False) for name in sorted(protos, reverse=True)]
    entered: set[str] = set()
    while waiting:
        name, has_imports = waiting.pop()
        if name in done:
            continue
        proto = protos.get(name)
        if proto is None:
            if name not in _WELL_KNOWN:
                raise BadDescriptors(
                    "a file that is imported is missing; make the set with --include_imports"
                )
            done.add(name)
            yield _WELL_KNOWN[name]
        elif has_imports:
            done.add(name)
            yield _without_comments(proto)
        elif name in entered:
            raise BadDescriptors("files import each other in a circle")
        else:
            entered.add(name)
            waiting.append((name, True))
            waiting += [(imported, False) for imported in proto.dependency if imported not in done]


def _without_comments(proto: FileDescriptorProto) -> bytes:
    bare = FileDescriptorProto()
    bare.CopyFrom(proto)
    bare.ClearField("source_code_info")
    return bare.SerializeToString()


def _methods(protos: Collection[FileDescriptorProto], pool: DescriptorPool) -> Iterator[MethodDescriptor]:
    for proto in protos:
        package = f"{proto.package}." if proto.package else ""
        for service in proto.service:
            full = package + service.name
            if not full.startswith(_OWN_SERVICES):
                yield from pool.FindServiceByName(full).methods


def _described(name: str, method: MethodDescriptor, comments: Mapping[str, str]) -> PinnedTool:
    """The method as a catalog has it. What can't be a tool says why in its annotations."""
    annotations: JsonObject = {"wire": _wire(method)}
    annotations |= _HINTS.get(int(method.GetOptions().idempotency_level), {})
    schema: JsonObject = {"type": "object"}
    if method.client_streaming or method.server_streaming:
        annotations["streaming"] = True
    else:
        try:
            schema = schema_of(method.input_type, comments)
        except NoSchema as problem:
            annotations["refused"] = str(problem)
    return PinnedTool(
        name=name,
        description=clean_text(comments.get(method.full_name, "")),
        input_schema_json=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        output_schema_json=None,
        annotations_json=json.dumps(annotations, separators=(",", ":")),
    )


def _wire(method: MethodDescriptor) -> str:
    """A digest over all that a request and a reply look like on the wire, names of fields included."""
    seen: dict[str, object] = {}
    waiting: list[Descriptor] = [method.input_type, method.output_type]
    while waiting:
        message = waiting.pop()
        if message.full_name in seen:
            continue
        fields: list[object] = []
        for field in sorted(message.fields, key=lambda one: one.number):
            inner: Any = field.message_type or field.enum_type
            fields.append(
                [field.number, field.name, field.type, field.is_repeated, inner and inner.full_name]
            )
            if field.message_type is not None:
                waiting.append(field.message_type)
            elif field.enum_type is not None:
                seen[field.enum_type.full_name] = [[one.number, one.name] for one in field.enum_type.values]
        seen[message.full_name] = fields
    ends = [method.input_type.full_name, method.output_type.full_name]
    text = json.dumps([ends, sorted(seen.items())], default=str)
    return hashlib.sha256(text.encode()).hexdigest()
