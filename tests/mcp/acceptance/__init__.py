"""The sections of tests/mcp/check.py and what they stand on."""


def sections():
    """In order: letter and what to run."""
    from . import conformance, containment, degraded, escalations, faults, front, generations, inspector, limits, passing, protocol, sdk, tools
    return [
        ("a", tools.run), ("a", protocol.run), ("a", passing.run), ("a", sdk.run),
        ("b", inspector.run), ("c", generations.run),
        ("d", containment.run), ("e", degraded.run), ("f", faults.run), ("g", escalations.run),
        ("h", conformance.run), ("i", front.run), ("j", limits.run),
    ]
