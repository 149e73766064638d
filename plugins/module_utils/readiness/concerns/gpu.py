CHECKS = ()


def collect(node):
    return {}


def assess(facts, require):
    return []
