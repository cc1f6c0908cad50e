"""The parts of a message as Gemini's API has them, and the programs that were made from its CLI.

[{"text":"Plan …","thought":true},{"text":"I look."},{"functionCall":{"id":"c1","name":…,"args":…}}]
[{"functionResponse":{"id":"c1","name":…,"response":{"output":"…"}}}]
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.prompts.shapes import binary


def parts_of(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        return [content]
    return [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []


def text_of(content: Any) -> str:
    """The words, without the reasoning."""
    return said_in(content)[0]


def said_in(content: Any) -> tuple[str, str, list[dict[str, Any]]]:
    """The words, the reasoning and the calls of an answer."""
    if isinstance(content, str):
        return content, "", []
    words: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in parts_of(content):
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(text, str):
            (thoughts if part.get("thought") else words).append(text)
        if isinstance(call, dict):
            calls.append(call)
    return "\n".join(words), "\n".join(thoughts), calls


_FILES = "\n--- Content from referenced files ---"


def typed_of(text: str) -> str:
    """What was typed of a prompt, without the files that it names (`@picture.png`)."""
    return text.partition(_FILES)[0].rstrip() if _FILES in text else text


def responses_of(content: Any) -> list[dict[str, Any]]:
    responses = (part.get("functionResponse") for part in parts_of(content))
    return [response for response in responses if isinstance(response, dict)]


def images_of(content: Any) -> Iterator[Attachment]:
    for part in parts_of(content):
        data = part.get("inlineData")
        if isinstance(data, dict) and isinstance(data.get("data"), str):
            yield binary("image", data["data"], str(data.get("mimeType") or ""))


def answer_of(response: Any) -> tuple[str | None, bool]:
    """What the model got of a call, and whether that is an error."""
    answer = response.get("response") if isinstance(response, dict) else None
    if not isinstance(answer, dict):
        return (answer if isinstance(answer, str) else None), False
    text = answer.get("output", answer.get("error"))
    failed = "error" in answer and "output" not in answer
    return (text if isinstance(text, str) else msgspec.json.encode(answer).decode()), failed


def arguments_of(args: Any) -> str:
    return "" if args is None else msgspec.json.encode(args).decode()
