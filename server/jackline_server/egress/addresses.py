"""What kind of address an IP address is: public, private, or one that nothing may ever reach.

Owns the tables. Does not own who may reach what (`policy`).
"""

from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address


class AddressKind(IntEnum):
    """How open an address is; the larger, the less it may be reached."""

    PUBLIC = 0
    PRIVATE = 1
    """Loopback, private, link-local, shared or special: only where the operator wrote it."""
    FORBIDDEN = 2
    """Metadata services, multicast, unspecified, reserved: never."""


_FORBIDDEN_4 = tuple(
    IPv4Network(net)
    for net in (
        "0.0.0.0/8",  # this network: connecting to it reaches loopback
        "100.100.100.200/32",  # metadata
        "168.63.129.16/32",  # metadata
        "169.254.169.254/32",  # metadata
        "169.254.170.2/32",  # task credentials
        "169.254.170.23/32",  # pod identity
        "192.0.0.192/32",  # metadata
        "192.88.99.0/24",  # the retired 6to4 relay
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_PRIVATE_4 = tuple(
    IPv4Network(net)
    for net in (
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
    )
)
_FORBIDDEN_6 = tuple(
    IPv6Network(net)
    for net in (
        "::/128",
        "100::/64",  # discard
        "2001::/32",  # Teredo
        "5f00::/16",  # segment routing
        "fd00:ec2::/32",  # metadata, pod identity
        "fd20:ce::/32",  # metadata
        "fec0::/10",  # retired site-local
        "ff00::/8",  # multicast
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_LOW_32_BITS = tuple(
    IPv6Network(net)
    for net in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
    )
)
_LOOPBACK_6 = IPv6Address("::1")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def kind_of_address(text: str) -> AddressKind:
    """Classify an address as a socket names it, with or without a scope id.

    An IPv4 address inside an IPv6 address counts like itself. What is no address is FORBIDDEN.
    """
    try:
        address = ip_address(text.split("%", 1)[0])
    except ValueError:
        return AddressKind.FORBIDDEN
    if isinstance(address, IPv4Address):
        return _kind_of_4(address)
    return _kind_of_6(address)


def _kind_of_4(address: IPv4Address) -> AddressKind:
    if any(address in net for net in _FORBIDDEN_4):
        return AddressKind.FORBIDDEN
    if any(address in net for net in _PRIVATE_4) or not address.is_global:
        return AddressKind.PRIVATE
    return AddressKind.PUBLIC


def _kind_of_6(address: IPv6Address) -> AddressKind:
    if any(address in net for net in _FORBIDDEN_6):
        return AddressKind.FORBIDDEN
    if address == _LOOPBACK_6:
        return AddressKind.PRIVATE
    number = int(address)
    if any(address in net for net in _LOW_32_BITS):
        return _kind_of_4(IPv4Address(number & 0xFFFFFFFF))
    if address in _LOCAL_NAT64:
        return AddressKind.FORBIDDEN  # where the IPv4 address stands in it is a local matter
    kind = AddressKind.PUBLIC
    if address in _SIX_TO_FOUR:
        kind = max(kind, _kind_of_4(IPv4Address((number >> 80) & 0xFFFFFFFF)))
    elif address not in _GLOBAL_UNICAST or not address.is_global:
        kind = AddressKind.PRIVATE
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        kind = max(kind, _kind_of_4(IPv4Address(number & 0xFFFFFFFF)))
    return kind
