"""Describe the JSON of all pages as OpenAPI, made from the records of the views."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from torchstone import __version__
from torchstone.dashboard.page_table import PAGE_KINDS, PageKind


@cache
def make_openapi() -> bytes:
    """Return the description as JSON."""
    template = "#/components/schemas/{name}"
    schemas, components = msgspec.json.schema_components(
        [kind.view for kind in PAGE_KINDS], ref_template=template
    )
    paths = {
        f"/{kind.path or 'health'}{'/{name}' if kind.has_name else ''}.json": {
            "get": _operation(kind, schema)
        }
        for kind, schema in zip(PAGE_KINDS, schemas, strict=True)
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "torchstone dashboard", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }
    return msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=1)


def _operation(kind: PageKind, schema: object) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "integer" if name == "page" else "string"}}
        for name in kind.filters
    ]
    if kind.has_name:
        parameters.append({"name": "name", "in": "path", "schema": {"type": "string"}, "required": True})  # type: ignore[dict-item]  # required is a truth value
    content = {"application/json": {"schema": schema}}
    return {
        "parameters": parameters,
        "responses": {"200": {"description": kind.view.__doc__ or "", "content": content}},
    }
