"""Nodes of LlamaIndex as rows, and back: text and metadata as those of any text, the rest as JSON.

The rest are the relationships, the templates and positions where they are not the default, and what
a node holds beside text. What LlamaIndex leaves out of its own JSON, which are the bytes of a
`MediaResource`, is left out here too. The class is kept by its name; of a class that LlamaIndex
does not have, a `TextNode` comes back.
"""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    TextNode,
)

from bitkin.checks import shown
from bitkin.errors import CorruptFileError
from bitkin.vector_stores.text_rows import NODE, SOURCE, TextRow, write_row

_KINDS: dict[str, type[BaseNode]] = {
    kind.class_name(): kind for kind in (TextNode, ImageNode, IndexNode, Node, Document)
}
# Making one of these asks its url for an image, over the network: it comes back as a document.
_KINDS["ImageDocument"] = Document
_RESOURCE = "text_resource"


def write_node(node: BaseNode, text_key: str) -> dict[str, Any]:
    """Return what a collection keeps of a node beside its vector.

    Examples
    --------
    >>> node = TextNode(id_="a", text="rain", metadata={"page": 3})
    >>> write_node(node, "text")
    {'page': 3, 'text': 'rain', '_node': '{"id_": "a", "class_name": "TextNode"}'}
    """
    rest = node.model_dump(mode="json", exclude={"embedding", "metadata"}, exclude_defaults=True)
    rest.pop("text", None)
    if isinstance(rest.get(_RESOURCE), dict):
        rest[_RESOURCE].pop("text", None)
    ours = {NODE: json.dumps(rest)}
    if node.source_node is not None:
        ours[SOURCE] = node.source_node.node_id
    return write_row(node.get_content(MetadataMode.NONE), node.metadata, text_key, ours)


def read_node(row: TextRow) -> BaseNode:
    """Return the node that `write_node` made a row of; a `TextNode` where something else did.

    Examples
    --------
    >>> read_node(TextRow("a", "rain", {"page": 3}, {})).metadata
    {'page': 3}
    """
    if NODE not in row.ours:
        return TextNode(id_=row.id, text=row.text, metadata=row.metadata)
    try:
        rest = json.loads(row.ours[NODE])
        kind = _KINDS.get(rest["class_name"], TextNode)
        rest["id_"] = row.id
        if issubclass(kind, TextNode):
            rest["text"] = row.text
        elif isinstance(rest.get(_RESOURCE), dict):
            rest[_RESOURCE]["text"] = row.text
        node = kind.from_dict(rest)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"the row {shown(row.id)} must have what bitkin wrote of a node under {NODE!r}, got "
            f"{shown(row.ours[NODE])}. Write the node again."
        ) from error
    node.metadata = row.metadata
    return node
