"""The reader of TOML: the standard library's, or from Python 3.9 and 3.10, which have none, one for a table of strings."""

import json
import re

try:
    from tomllib import TOMLDecodeError, loads
except ModuleNotFoundError:                              # Python < 3.11; no package is asked for, so that installing the kit changes none

    class TOMLDecodeError(ValueError):
        """A line that is neither a comment, nor [table], nor key = "string"."""

    STRING = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
    HEADING = re.compile(r"\[\s*([A-Za-z0-9_-]+)\s*\]")
    ENTRY = re.compile(rf"({STRING}|[A-Za-z0-9_-]+)\s*=\s*({STRING})")
    REST = re.compile(r"\s*(#.*)?$")

    def _string(text, number):
        if text[:1] == "'":
            return text[1:-1]
        try:
            return json.loads(text) if text[:1] == '"' else text
        except ValueError:
            raise TOMLDecodeError(f"line {number}: cannot read the string {text}") from None

    def loads(text):
        """Tables of strings, {table: {key: string}}; TOMLDecodeError for anything else."""
        out = {}
        table = out
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            heading, entry = HEADING.match(line), ENTRY.match(line)
            found = heading or entry
            if REST.match(line):
                continue
            if not found or not REST.match(line[found.end():]):
                raise TOMLDecodeError(f'line {number}: expected [table] or "key" = "string", got {line[:60]}')
            key = _string(found[1], number)
            if key in (out if heading else table):
                raise TOMLDecodeError(f"line {number}: {key} is there twice")
            if heading:
                table = out[key] = {}
            else:
                table[key] = _string(found[2], number)
        return out

__all__ = ["TOMLDecodeError", "loads"]
