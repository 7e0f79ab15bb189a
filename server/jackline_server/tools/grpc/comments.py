"""What is written beside methods and fields, where descriptors were made with it: by their full names."""

from collections.abc import Iterator, Mapping

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

_MESSAGE, _SERVICE = 4, 6
_FIELD, _NESTED, _METHOD = 2, 3, 2


def comments_of(file: FileDescriptorProto) -> Mapping[str, str]:
    """The comment of each method and field that has one, on one line each paragraph."""
    names = dict(_named(file))
    found: dict[str, str] = {}
    for location in file.source_code_info.location:
        name = names.get(tuple(location.path))
        text = location.leading_comments
        if name is not None and isinstance(text, str) and text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - bytes if it is no UTF-8
            found[name] = " ".join(text.split())
    return found


def _named(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    package = f"{file.package}." if file.package else ""
    for number, message in enumerate(file.message_type):
        yield from _in_message(message, (_MESSAGE, number), package + message.name)
    for number, service in enumerate(file.service):
        for place, method in enumerate(service.method):
            yield (_SERVICE, number, _METHOD, place), f"{package}{service.name}.{method.name}"


def _in_message(
    message: DescriptorProto, path: tuple[int, ...], name: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, field in enumerate(message.field):
        yield (*path, _FIELD, number), f"{name}.{field.name}"
    for number, nested in enumerate(message.nested_type):
        yield from _in_message(nested, (*path, _NESTED, number), f"{name}.{nested.name}")
