# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading an NVLink fabric for a change of it: what the role nvidia_fabric asks of nodes."""
