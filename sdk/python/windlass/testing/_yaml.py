"""Reads YAML as definitions of kinds use it, so that a plugin's tests need no package for it.

It supports blocks and flows, quoted, plain and folded texts, comments, and several documents. It refuses other
features, such as anchors and tags. It joins the lines of a text by spaces, which makes no difference to a definition.

"""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\[\]{}&*!|>%@#`].*?)\s*:(?:\s+(.*))?$""")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
_IN_FLOW = re.compile(r"(?:[^,\[\]{}:]|:[^\s,\]}])+")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_COMMENT = re.compile(r"(?:^|\s+)#.*$")
_PLAIN = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_PLAIN |= {word: True for word in ("true", "True", "TRUE")} | {word: False for word in ("false", "False", "FALSE")}


class _Unfinished(ValueError):
    """Raised if a value continues in the next line."""


def documents(text: str) -> list[Any]:
    """Parses the documents of a text. JSON is YAML, too."""
    if text.lstrip().startswith("{"):
        return [json.loads(text)]
    found: list[Any] = []
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), "---"], start=1):
        if line.rstrip() != "---" and not line.startswith("--- "):
            lines.append(line.rstrip())
            continue
        reader = _Reader(lines)
        if reader.peek() is not None:
            found.append(reader.document())
        # Line numbers count from the beginning of the text, so the lines before this document are empty.
        lines = [""] * number
    return found


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    def document(self) -> Any:
        value = self.node(0)
        rest = self.peek()
        if rest is not None:
            self.at += 1
            raise self.wrong(f"{rest[1]} does not belong to what is above it")
        return value

    def wrong(self, what: object) -> ValueError:
        """Creates an error at the line that was read last."""
        return ValueError(f"this is not YAML that the test host supports: line {self.at}: {what}")

    def peek(self) -> tuple[int, str] | None:
        """Returns the indentation and the text of the next line that is not empty."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.lstrip(" ")
            if text and not text.startswith("#"):
                return len(line) - len(text), text
            self.at += 1
        return None

    def node(self, least: int) -> Any:
        """Reads the value that starts at the next line, if that is indented at least this far."""
        line = self.peek()
        if line is None or line[0] < least:
            return None
        indent, text = line
        if _is_item(text):
            return self.sequence(indent)
        if _KEY.match(text):
            return self.mapping(indent)
        self.at += 1
        return self.value(text, least - 1)

    def sequence(self, indent: int) -> list[Any]:
        items = []
        while (line := self.peek()) is not None and line[0] == indent and _is_item(line[1]):
            # The text after the dash counts as a line of its own, with its indentation.
            self.lines[self.at] = " " * (indent + 1) + line[1][1:]
            items.append(self.node(indent + 1))
        return items

    def mapping(self, indent: int) -> dict[str, Any]:
        fields = {}
        while (line := self.peek()) is not None and line[0] == indent and not _is_item(line[1]):
            match = _KEY.match(line[1])
            if match is None:
                break
            self.at += 1
            fields[_unquoted(match[1])] = self.field(match[2] or "", indent)
        return fields

    def field(self, text: str, indent: int) -> Any:
        if text and not text.startswith("#"):
            return self.value(text, indent)
        line = self.peek()
        if line is not None and line[0] == indent and _is_item(line[1]):
            return self.sequence(indent)
        return self.node(indent + 1)

    def value(self, text: str, parent: int) -> Any:
        """Reads a value that starts with a text and continues in the lines that are indented further than its parent."""
        if text[0] in "|>":
            return self.block(text, parent)
        if text[0] in "&*!%@`":
            raise self.wrong(f"anchors, aliases and tags are not supported: {text}")
        if text[0] in "\"'[{":
            return self.flow(text)
        text = _COMMENT.sub("", text)
        while (line := self.peek()) is not None and line[0] > parent:
            text += " " + line[1]
            self.at += 1
        return _scalar(text)

    def block(self, header: str, parent: int) -> str:
        """Reads a text of several lines."""
        lines = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line and len(line) - len(line.lstrip(" ")) <= parent:
                break
            lines.append(line)
            self.at += 1
        depth = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
        text = (" " if header[0] == ">" else "\n").join(line[depth:] for line in lines).rstrip(" \n")
        return text if "-" in header else text + "\n"

    def flow(self, text: str) -> Any:
        """Reads a value in brackets, braces or quotes."""
        while True:
            try:
                value, rest = _flow(text)
            except _Unfinished as error:
                if self.at == len(self.lines):
                    raise self.wrong(error) from None
                text += " " + self.lines[self.at].strip()
                self.at += 1
                continue
            except ValueError as error:
                raise self.wrong(error) from None
            if _COMMENT.sub("", rest).strip():
                raise self.wrong(f"there is more text after the value: {rest}")
            return value


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _flow(text: str) -> tuple[Any, str]:
    """Reads the value at the start of a text, and returns it with the rest."""
    text = text.lstrip(" ")
    if not text:
        raise _Unfinished("a value does not end")
    if text[0] == "[":
        return _flow_list(text[1:])
    if text[0] == "{":
        return _flow_object(text[1:])
    if text[0] in "\"'":
        quoted = _QUOTED.match(text)
        if quoted is None:
            raise _Unfinished("a text does not end")
        return _unquoted(quoted[0]), text[quoted.end() :]
    plain = _IN_FLOW.match(text)
    if plain is None:
        raise ValueError(f"a value is missing before {text}")
    return _scalar(plain[0].strip()), text[plain.end() :]


def _flow_list(text: str) -> tuple[list[Any], str]:
    items = []
    while not (text := text.lstrip(" ,")).startswith("]"):
        item, text = _flow(text)
        items.append(item)
    return items, text[1:]


def _flow_object(text: str) -> tuple[dict[str, Any], str]:
    fields = {}
    while not (text := text.lstrip(" ,")).startswith("}"):
        key, text = _flow(text)
        text = text.lstrip(" ")
        if not text:
            raise _Unfinished("a value does not end")
        if not text.startswith(":"):
            raise ValueError(f"the key {key} has no value")
        fields[str(key)], text = _flow(text[1:])
    return fields, text[1:]


def _unquoted(text: str) -> str:
    """Removes the quotes of a key or a text, if it has any."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return str(json.loads(text)) if text.startswith('"') else text


def _scalar(text: str) -> Any:
    """Converts a plain text to its value."""
    if text in _PLAIN:
        return _PLAIN[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
