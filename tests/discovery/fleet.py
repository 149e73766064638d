# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes of the discovery tests: racks of trays, and one node for each way in which a node can be odd."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.kimi_k3.tests.discovery.servers import CUT_OFF, Made
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts.gpu import CLUSTER
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

RACKS, TRAYS = 10, 20
SMI = ("nvidia-smi", "-q", "-x")


def uuid_of(rack: int) -> str:
    """The clusterUuid of a rack; two of them begin alike."""
    return CLUSTER if rack == 0 else f"{0 if rack == 2 else rack:08x}-9d5f-4e08-b3a6-{rack:012x}"


def rack_profile(rack: int) -> Profile:
    """A tray of a rack."""
    profile = healthy("gb200")
    reply = profile.commands[SMI]
    profile.commands[SMI] = replace(reply, stdout=reply.stdout.replace(CLUSTER, uuid_of(rack)))
    return profile


def rack_hosts() -> dict[str, str]:
    """Address by host name: gb-r00-01 to gb-r09-20."""
    return {
        f"gb-r{rack:02d}-{tray:02d}": f"127.77.{rack}.{tray}" for rack in range(RACKS) for tray in range(1, TRAYS + 1)
    }


def with_smi(kind: str, reply: Reply) -> Profile:
    """A healthy node whose nvidia-smi answers this."""
    profile = healthy(kind)
    profile.commands[SMI] = reply
    return profile


def odd_nodes() -> dict[str, Made]:
    """One node for each way of being odd."""
    return {
        "b200": Made(healthy("b200")),
        "h100": Made(healthy("h100")),
        "cpu": Made(
            Profile(files={"/sys/bus/pci/devices/0000:00:00.0/" + name: text for name, text in BRIDGE.items()})
        ),
        "nosmi": Made(healthy("gb200").without_command("nvidia-smi")),
        "hungsmi": Made(with_smi("gb200", Reply(hang=True))),
        "oldsmi": Made(with_smi("gb200", Reply(stdout=MISMATCH, rc=18))),
        "hostilesmi": Made(with_smi("gb200", Reply(stdout=HOSTILE, rc=9))),
        "garbagesmi": Made(with_smi("gb200", Reply(stdout="\udcff\udcfe\x01<?xml \udc80 \x1b]0;hostile\x07\n" * 50))),
        "notimeout": Made(with_smi("gb200", Reply(hang=True)), programs={"timeout": "#!/bin/sh\nexit 127\n"}),
        "hung": Made(Profile(), command="sleep 3600"),
        "cut": Made(healthy("gb200"), command=CUT_OFF),
        "garbage": Made(Profile(), command="head -c 300000 /usr/bin/head"),
        "flood": Made(Profile(), command="yes"),
        "menu": Made(Profile(), command="echo Hello, what would you like to do today?"),
    }


BRIDGE = {"vendor": "0x8086\n", "device": "0x1234\n", "class": "0x060000\n"}
HOSTILE = "\x1b[2J\x1b]0;hostile\x07 HF_TOKEN=hf_abcdefghijkl\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"
