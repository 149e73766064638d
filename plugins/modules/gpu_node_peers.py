#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_peers
short_description: Try the TCP ports of a deployment between its nodes
version_added: 0.2.0
description:
  - Three steps, each a task over all nodes of a deployment - listen, try the peers, end. The role
    P(gpufleet.kimi_k3.node_readiness#role) runs them where O(ignore:node_readiness_peer_test) asks for it.
  - Listens only on ports that nobody holds; to a port that a service holds it only connects.
  - The listener is a process of its own that ends when it is told to, and by itself after O(seconds).
  - Changes nothing on the node, and opens nothing in a firewall.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node, and the ip command of iproute2 unless O(address) is given
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: The test runs in check mode as well, for it leaves nothing behind and was asked for.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: N/A
    details: This module changes nothing.
options:
  step:
    description: V(listen) on this node, V(try) its peers, or V(end) its listener.
    type: str
    choices: [listen, try, end]
    required: true
  address:
    description: Address of this node to listen on and to try from; empty for that of O(interface).
    type: str
    default: ""
  interface:
    description: Interface whose first address is taken; empty for that of the default route.
    type: str
    default: ""
  ports:
    description:
      - Ports to listen on. Empty for those a deployment uses by default (29501, 29550, 29500 and 5600), and 50000
        where the node has IMEX.
    type: list
    elements: int
    default: []
  seconds:
    description: How long the listener lives at most.
    type: int
    default: 120
  timeout:
    description: Seconds that one attempt to connect, or one answer, may take.
    type: float
    default: 5
  peers:
    description:
      - The nodes to try, each with RV(listening) of its own V(listen) step and its name.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The peer's name in the inventory.
        type: str
        required: true
      address:
        description: The address it listens on.
        type: str
        required: true
      token:
        description: What its listener proves itself by; worth nothing after the test.
        type: str
        required: true
      ports:
        description: Its ports, each with state, holder and purpose.
        type: dict
        required: true
  listening:
    description: RV(listening) of this node's V(listen) step, for V(end).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Listen for the peers
  gpufleet.kimi_k3.gpu_node_peers:
    step: listen
    interface: eth0
  register: listener

- name: Try the next node of the ring
  gpufleet.kimi_k3.gpu_node_peers:
    step: try
    peers:
      - name: gpu-02
        address: "{{ hostvars['gpu-02'].listener.listening.address }}"
        token: "{{ hostvars['gpu-02'].listener.listening.token }}"
        ports: "{{ hostvars['gpu-02'].listener.listening.ports }}"

- name: End the listener
  gpufleet.kimi_k3.gpu_node_peers:
    step: end
    listening: "{{ listener.listening }}"
"""

RETURN = r"""
listening:
  description: Where this node listens.
  returned: with step V(listen)
  type: dict
  contains:
    address:
      description: The address.
      type: str
      returned: always
    token:
      description: What the listener proves itself by.
      type: str
      returned: always
    ports:
      description: By port, the state (V(listening), V(held), V(error)), who holds it, and its purpose.
      type: dict
      returned: always
  sample:
    address: 10.0.0.11
    token: 5c1c0a3e8d6f4b2a9e7d5c3b1a0f8e6d
    ports:
      "29501": {state: listening, holder: "", purpose: rendezvous}
      "5600": {state: held, holder: python3, purpose: NIXL}
edges:
  description: What became of each port of each peer.
  returned: with step V(try)
  type: list
  elements: dict
  contains:
    peer:
      description: The peer's name.
      type: str
      returned: always
    address:
      description: Its address.
      type: str
      returned: always
    port:
      description: The port.
      type: int
      returned: always
    purpose:
      description: What a deployment uses the port for; empty where that is not known.
      type: str
      returned: always
    state:
      description:
        - V(ok) small and full packets pass both ways; V(held) a service holds the port and a connection came about;
          V(refused), V(dropped) and V(no_route) no connection; V(stalled) small packets pass and full ones do not;
          V(foreign) something else answers; V(error) anything else.
      type: str
      returned: always
    detail:
      description: The same as a sentence.
      type: str
      returned: always
ended:
  description: Whether there was a listener to end; null where this node listened on no port.
  returned: with step V(end)
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers import steps
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

PEER = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "token": {"type": "str", "required": True, "no_log": False},
    "ports": {"type": "dict", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["listen", "try", "end"], "required": True},
            "address": {"type": "str", "default": ""},
            "interface": {"type": "str", "default": ""},
            "ports": {"type": "list", "elements": "int", "default": []},
            "seconds": {"type": "int", "default": 120},
            "timeout": {"type": "float", "default": 5},
            "peers": {"type": "list", "elements": "dict", "default": [], "options": PEER},
            "listening": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    options: dict[str, Any] = module.params
    wrong = [port for port in options["ports"] if not 1 <= port <= 65535]
    if wrong or options["timeout"] <= 0 or not 1 <= options["seconds"] <= 3600:
        module.fail_json(msg="allowed: ports from 1 to 65535, a timeout above 0, and 1 to 3600 seconds")
    try:
        if options["step"] == "listen":
            address = options["address"] or steps.own_address(Node(), options["interface"])[0]
            module.exit_json(changed=False, listening=steps.listen(address, options["ports"], options["seconds"]))
        if options["step"] == "try":
            edges = steps.attempts(options["peers"], options["timeout"], options["address"])
            module.exit_json(changed=False, edges=edges)
        listening = options["listening"]
        module.exit_json(changed=False, ended=steps.end(listening, options["timeout"]))
    except steps.PeerError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
