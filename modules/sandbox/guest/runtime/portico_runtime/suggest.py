"""What the author of a program may have meant."""

import difflib


def near(name, names):
    """The words ". Did you mean: 'x'?" if a name is nearly one of the names."""
    found = closest(name, names)
    return ". Did you mean: %r?" % found if found else ""


def among(name, names, what):
    """The same, followed by all of the names."""
    return "%s %s: %s." % (near(name, names) or ".", what, ", ".join(names) or "nothing")


def closest(name, names):
    """The name that is nearest to the given one; empty if none is near. Case,
    dots and underscores do not count."""
    plain = {}
    for known in names:
        plain.setdefault(_plain(known), known)
    found = difflib.get_close_matches(_plain(name), plain, 1, 0.7)
    return plain[found[0]] if found else ""


def _plain(name):
    return "".join(c for c in name.lower() if c.isalnum())
