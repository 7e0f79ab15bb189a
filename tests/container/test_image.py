"""What a container of the image may do, and what is in it."""

import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.container.host import ROOT, Host
from tests.container.image import Image
from tests.container.sandbox import is_root
from tests.packaging.locks import pinned

RUN = (
    "docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges "
    "--volume kept:/var/lib/jackline"
)
FIRST_START = f"""
{RUN} --detach --name first jackline serve --insecure-bind
until [ "$(docker inspect --format '{{{{.State.Health.Status}}}}' first)" = healthy ]; do sleep 0.2; done
"""
pytestmark = pytest.mark.timeout(900)


def packages_of(image: Image) -> Path:
    (found,) = Path(image.root, "opt/jackline/lib").glob("python3.*/site-packages")
    return found


def test_a_container_can_write_its_volume_and_tmp_and_nothing_else(image: Image, tmp_path: Path) -> None:
    folders = "/tmp /var/lib/jackline / /etc /opt/jackline /usr /root /var/tmp"  # noqa: S108 - asked about
    loop = f'for each in {folders}; do test -w $each && echo "may write $each"; done; true'
    passed_over = [
        *folders.split()[:2],
        "/proc",
        "/dev",
        "/usr",
        sys.base_prefix,
    ]  # the last two are this machine's
    prune = " -o ".join(f"-path {folder}" for folder in passed_over)
    ended = Host(tmp_path, image).run(
        f"""{FIRST_START}
        docker exec first sh -c '{loop}'
        docker exec first find / \\( {prune} \\) -prune -o -writable -not -type l -print 2>/dev/null || true
        """
    )
    assert ended.code == 0, ended.err + ended.logs
    assert ended.out.splitlines() == ["may write /tmp", "may write /var/lib/jackline"]


def test_the_server_is_process_1_of_a_user_without_any_right(image: Image, tmp_path: Path) -> None:
    ended = Host(tmp_path, image).run(
        FIRST_START + "docker exec first cat /proc/1/status; docker exec first id -u"
    )
    assert ended.code == 0, ended.err + ended.logs
    told = dict(line.split(":\t", 1) for line in ended.out.splitlines() if ":\t" in line)
    assert told["Name"] == "jackline"
    assert int(told["CapEff"], 16) == int(told["CapPrm"], 16) == int(told["CapAmb"], 16) == 0
    assert told["NoNewPrivs"] == "1"
    assert ended.out.splitlines()[-1] == str(image.uid) == "10001"
    assert not is_root() or set(told["Uid"].split()) == {"10001"}


def test_a_container_that_nobody_vouched_for_does_not_listen(image: Image, tmp_path: Path) -> None:
    ended = Host(tmp_path, image).run(f"{RUN} jackline || echo ended with $?")
    assert ended.out.splitlines() == ["ended with 2"]
    assert "--insecure-bind" in ended.err


def test_the_health_check_of_a_server_that_is_not_there_fails(image: Image, tmp_path: Path) -> None:
    ended = Host(tmp_path, image).run(f"{RUN} jackline health --timeout 0.2 || echo ended with $?")
    assert ended.out.splitlines() == ["ended with 1"]


def test_a_second_server_on_the_volume_is_refused(image: Image, tmp_path: Path) -> None:
    ended = Host(tmp_path, image).run(
        FIRST_START
        + f"{RUN} --env JACKLINE_LISTEN=127.0.0.1:50052 jackline || echo ended with $?\n"
        + "docker stop first; docker inspect --format '{{.State.ExitCode}}' first"
    )
    assert ended.out.splitlines() == ["ended with 75", "0"], ended.err


def test_the_image_holds_what_is_locked_and_jackline(image: Image) -> None:
    found = {
        canonicalize_name(each.metadata["Name"]): each.version
        for each in distributions(path=[str(packages_of(image))])
    }
    assert found.pop(canonicalize_name("jackline"))
    assert found == pinned(ROOT / "requirements" / "server.txt")


def test_the_image_holds_bytecode_for_every_module_of_ours(image: Image) -> None:
    tag = sys.implementation.cache_tag
    missing = [
        module
        for package in ("jackline", "jackline_client", "jackline_server")
        for module in (packages_of(image) / package).rglob("*.py")
        if not (module.parent / "__pycache__" / f"{module.stem}.{tag}.pyc").is_file()
    ]
    assert missing == []


def test_the_image_holds_no_secret_no_data_and_no_installer(image: Image) -> None:
    root = Path(image.root)
    assert list((root / "var/lib/jackline").iterdir()) == []
    assert not any((root / name).exists() for name in ("src", "dist", "installer", "var/cache/uv"))
    assert not [name for name in image.environ if any(word in name for word in ("TOKEN", "KEY", "SECRET"))]
    assert not list(packages_of(image).glob("pip*"))
