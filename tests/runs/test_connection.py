"""An embedded Ray is nobody's business but this machine's: what its processes are, and listen on."""

import contextlib
import ipaddress

import pytest
import ray

pytestmark = pytest.mark.usefixtures("local_ray")


@ray.remote(num_cpus=0)
class Actor:
    def ping(self):
        return None


def processes():
    """This process, Ray's, and those that it started."""
    import psutil  # Ray's own copy, which its import makes known

    here, session = psutil.Process(), ray._private.worker._global_node.session_name
    family = {here, *here.children(recursive=True)}
    family |= {each for each in psutil.process_iter() if session in " ".join(commands_of(each))}
    for process in list(family):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            family.update(process.children(recursive=True))
    return family


def listening():
    """(process, address) of every listening socket of these processes."""
    import psutil

    for process in processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            for socket in process.net_connections("inet"):
                if socket.status == psutil.CONN_LISTEN:
                    yield process.name(), ipaddress.ip_address(socket.laddr.ip)


def commands_of(process):
    import psutil

    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_an_embedded_ray_listens_on_the_loopback_only():
    actor = Actor.remote()
    ray.get(actor.ping.remote())
    found = list(listening())
    ray.kill(actor)
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}
    assert any("Actor" in name for name, _ in found)
    strangers = [(name, str(each)) for name, each in found if not (mapped(each) or each).is_loopback]
    assert strangers == []


def mapped(address):
    """Of ::ffff:127.0.0.1, 127.0.0.1."""
    return address.ipv4_mapped if address.version == 6 else None


def test_an_embedded_ray_has_no_process_for_reports_of_its_use():
    commands = [" ".join(commands_of(process)) for process in processes()]
    assert any("gcs_server" in command for command in commands)
    assert not [command for command in commands if "dashboard.py" in command]
