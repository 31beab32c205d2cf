"""The options ``transform``, ``transformKeyFile`` and ``transformKeyEnv`` of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping

from replica_client.errors import ConfigError
from replica_client.lake.option_secrets import secret_of
from replica_client.readers.transforms.transformer import Transformer


def transforms_of(given: Mapping[str, str]) -> str:
    """Return the transforms with their key, as JSON.

    Raises:
        ConfigError: they are wrong, or cannot be combined with another option.
    """
    key = secret_of(given, "transformKeyEnv", "transformKeyFile")
    text = given.get("transform")
    if text is None:
        if key is not None:
            raise ConfigError("option transformKeyFile or transformKeyEnv is for transform")
        return ""
    # Transforms name columns and tables of the source; these options name the transformed ones.
    if wrong := [name for name in ("columns", "filterPushdown") if name in given]:
        raise ConfigError(f"option {wrong[0]} does not go with transform, which says what is given")
    try:
        tables = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option transform is a JSON list of objects: {error}") from None
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ConfigError("option transform is a JSON list of objects")
    if any("key" in one for one in tables):
        raise ConfigError(
            "option transform: key: Spark shows options to people; give transformKeyFile or transformKeyEnv"
        )
    if key is not None:
        tables = [{**one, "key": key} for one in tables]
    found = Transformer.of(tables)
    if found is not None and found.has_outbox:
        raise ConfigError("option transform: outbox makes messages for sinks; Spark gets rows")
    return json.dumps(tables) if tables else ""
