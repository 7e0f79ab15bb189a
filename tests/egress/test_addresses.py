import pytest

from jackline_server.egress.addresses import AddressKind, kind_of_address


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_public_addresses_are_public(address: str):
    assert kind_of_address(address) is AddressKind.PUBLIC


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.9",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12:3456::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:a00:1",
        "4000::1",
    ],
)
def test_private_addresses_are_private_in_every_dress(address: str):
    assert kind_of_address(address) is AddressKind.PRIVATE


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fec0::1",
        "2001::1",
        "64:ff9b:1::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2606:4700::5efe:a9fe:a9fe",
        "::ffff:0.0.0.0",
        "",
        "localhost",
        "127.1",
    ],
)
def test_metadata_multicast_and_reserved_addresses_are_forbidden(address: str):
    assert kind_of_address(address) is AddressKind.FORBIDDEN
