"""Names of tools that have two parts, as server.tool, and what is defined for a
program."""

import types


class Type(str):
    """A type in a signature, in words."""

    def __repr__(self):
        return str(self)


class Space(types.SimpleNamespace):
    """The tools of one server. What it does not have is looked for in what the
    program would find under the name otherwise, such as a module."""

    def __init__(self, name, tools, before):
        super().__init__(**tools)
        self.__doc__ = "Tools: %s." % ", ".join(sorted(tools))
        self.__dict__["_portico"] = name, tuple(tools), before

    def __getattr__(self, name):
        space, tools, before = self.__dict__["_portico"]
        if before is not None and not isinstance(before, Space) and not name.startswith("__"):
            return getattr(before, name)
        raise AttributeError("%s has no tool %r" % (space, name), name=name, obj=self)

    def __dir__(self):
        return list(self.__dict__["_portico"][1])

    def __repr__(self):
        return "<tools of %s: %s>" % (self.__dict__["_portico"][0], ", ".join(sorted(dir(self))))


def of(value):
    """The name of a space and those of its tools; None for anything else."""
    return value.__dict__["_portico"][:2] if type(value) is Space else None


class Defined:
    """What is defined for a program: tools has the names of the functions that
    are tools, and spaces those names by space and member."""

    def __init__(self, names, known):
        self.tools, self.spaces = [], {}
        self._names, self._known, self._made = names, known, {}

    def put(self, name, value):
        """Define a name, unless the program has it for something of its own."""
        if name in self._names and self._names[name] is not self._known.get(name, self):
            return False
        self._names[name] = self._made[name] = value
        return True

    def forget(self):
        """Take the names away again, except those that the program has given
        away; what was there before comes back."""
        for name, value in self._made.items():
            if self._names.get(name) is value:
                del self._names[name]
                if name in self._known:
                    self._names[name] = self._known[name]

    def here(self):
        """The tools, and the spaces, whose names the program has not given
        away."""
        mine = {name for name, value in self._made.items() if self._names.get(name) is value}
        return [name for name in self.tools if name in mine], {name: tools for name, tools in self.spaces.items() if name in mine}
