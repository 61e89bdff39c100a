#!/usr/bin/python3
"""The keys of the job file as a table for people, made of its JSON Schema.

  scripts/job_keys.py          prints it
  scripts/job_keys.py --write  puts it into config/README.md, between its two marks; lint compares
"""

import json
import os
import re
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
    if low == 0 and below is not None:
        return f"below {below:g}"
    if low is not None and high is not None and high <= 1000000:
        return f"{low:g}–{high:.0f}"
    return f"{low:g} or more" if low else ""


def values(schema):
    """What a key may hold, in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        # A size or a list of cores is also a text: its pattern says less than a word.
        kinds = [values(kind) for kind in schema["anyOf"] if "pattern" not in kind]
        if any("KmM" in kind.get("pattern", "") for kind in schema["anyOf"]):
            kinds[0] = "size"
        return ", ".join(dict.fromkeys(kind for kind in kinds if kind))
    kind = schema.get("type")
    if kind == "array":
        return "list"
    if kind == "boolean":
        return "`true`, `false`"
    if kind in ("integer", "number"):
        return bounds(schema) or ("whole number" if kind == "integer" else "number")
    if kind == "object":
        return "object" if "additionalProperties" in schema and "properties" not in schema else ""
    return "text" if kind == "string" else ""


def with_default(schema):
    """The values with the default in bold: among the words, or behind a colon."""
    text = values(schema)
    if "default" not in schema:
        return text
    value = schema["default"]
    word = f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('"')
    among = re.sub(f"`{re.escape(word)}`", f"**`{word}`**", text, count=1)
    return among if among != text else f"{text}: **{word}**"


def keys(schema, path=""):
    """(path, schema, whether it is required) of each key that holds a value."""
    for name, key in schema.get("properties", {}).items():
        kinds = [key, *key.get("anyOf", [])]
        inner = [kind for kind in kinds if "properties" in kind]
        if name != "$schema" and not inner:
            yield path + name, key, name in schema.get("required", [])
        for kind in inner:
            yield from keys(kind, f"{path}{name}.")
        for kind in kinds:
            yield from keys(kind.get("items", {}), f"{path}{name}[].")


def change_lines(all_keys):
    """The keys of each answer to: may a run go on with another value? A whole object as one."""
    words = {path: key.get("x-sluice-change") for path, key, _ in all_keys}
    told = {"free": [], "onward": []}
    for path, word in words.items():
        group = path.rpartition(".")[0] + "."
        whole = group != "." and {w for p, w in words.items() if p.startswith(group)} == {word}
        name = f"`{group}*`" if whole else f"`{path}`"
        if word in told and name not in told[word]:
            told[word].append(name)
    return [f"- *{word}*: {', '.join(names)}" for word, names in told.items()]


def table():
    with open(SCHEMA, encoding="utf-8") as file:
        all_keys = list(keys(json.load(file)))
    lines = ["key | values, **default** | meaning", "--- | --- | ---"]
    for path, key, required in all_keys:
        what = with_default(key) + (", required" if required else "")
        about = key.get("description", "").replace("|", "\\|")
        lines.append(f"`{path}` | {what} | {about}")
    return "\n".join([*lines, "", *change_lines(all_keys)]) + "\n"


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
