"""Tool definitions in the shape of OpenAI's function calling, which ATIF uses by convention."""

from typing import Any


def to_definitions(definitions: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [_definition(definition) for definition in definitions or ()]


def _definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's `{name, input_schema}` and the flat `{type, name, parameters}` are wrapped."""
    if not isinstance(definition.get("name"), str) or "function" in definition:
        return definition
    if definition.get("type", "function") not in ("function", "custom"):
        return definition  # a tool that the provider runs itself has no schema to show
    function = {key: value for key, value in definition.items() if key != "type"}
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return {"type": "function", "function": function}
