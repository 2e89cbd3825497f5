"""What load_file returns becomes a variable. This file needs the standard
library alone, so that it can be given to any Python."""

import base64
import io
import keyword
import sys


def portico_variable(answer, names=None):
    """Set the variable that an answer of load_file names, in names or in the
    program's globals, and return its value."""
    name, form, content = answer["name"], answer["form"], answer["content"]
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError("var_name is no name of a variable: %r" % name)
    if answer["encoding"] == "base64":
        content = base64.b64decode(content, validate=True)
    if form == "csv":
        import pandas

        value = pandas.read_csv(io.StringIO(content), sep=answer.get("separator") or ",")
    elif form == "parquet":
        import pandas

        value = pandas.read_parquet(io.BytesIO(content))
    elif form in ("text", "json", "bytes"):
        value = content
    else:
        raise ValueError("load_file answered with the unknown form %r" % form)
    (vars(sys.modules["__main__"]) if names is None else names)[name] = value
    return value
