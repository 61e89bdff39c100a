#!/usr/bin/python3
"""The keys of the job file as a table for people, made of its JSON Schema.

  scripts/job_keys.py          prints it
  scripts/job_keys.py --write  puts it into config/README.md, between its two marks; lint compares
"""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCHEMA = os.path.join(ROOT, "config", "job.schema.json")
README = os.path.join(ROOT, "config", "README.md")
BEGIN = "<!-- keys: scripts/job_keys.py --write -->\n"
END = "<!-- end of keys -->\n"


def bounds(schema):
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is not None:
        return f"above {above:g}"
    if low is not None and (below is not None or (high is not None and high <= 1000000)):
        return f"{low:g} to {'below ' if below is not None else ''}{below or high:g}"
    return f"{low:g} or more" if low else ""


def values(schema):
    """What a key may hold, in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        # A size or a list of cores is also a text: its pattern says less than an example.
        kinds = [values(kind) for kind in schema["anyOf"] if "pattern" not in kind]
        if any("KmM" in kind.get("pattern", "") for kind in schema["anyOf"]):
            kinds[0] = "bytes, `512MiB`"
        return ", ".join(dict.fromkeys(kind for kind in kinds if kind))
    kind = schema.get("type")
    if kind == "array":
        return "list"
    if kind == "boolean":
        return "`true`, `false`"
    if kind in ("integer", "number"):
        return bounds(schema) or ("whole number" if kind == "integer" else "number")
    return {"string": "text", "object": ""}.get(kind, "")


def default(schema):
    if "default" not in schema:
        return ""
    value = schema["default"]
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('"')


def rows(schema, path=""):
    for name, key in schema.get("properties", {}).items():
        kinds = [key, *key.get("anyOf", [])]
        inner = [kind for kind in kinds if "properties" in kind]
        inner_of_list = [kind["items"] for kind in kinds if "properties" in kind.get("items", {})]
        about = key.get("description", "").replace("|", "\\|")
        if name != "$schema":
            required = "required" if name in schema.get("required", []) and not inner else ""
            change = key.get("x-sluice-change", "")
            columns = [f"`{path}{name}`", values(key), required or default(key), change, about]
            yield f"| {' | '.join(columns)} |"
        for kind in inner:
            yield from rows(kind, f"{path}{name}.")
        for kind in inner_of_list:
            yield from rows(kind, f"{path}{name}[].")


def table():
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    head = ["| key | values | default | change | meaning |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows(schema)]) + "\n"


def in_readme():
    """The README before the table, the table that it has, and what follows."""
    with open(README, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    found, after = rest.split(END)
    return before, found, after


def main():
    if sys.argv[1:] == ["--write"]:
        before, _, after = in_readme()
        with open(README, "w", encoding="utf-8") as file:
            file.write(before + BEGIN + table() + END + after)
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
