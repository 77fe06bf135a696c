"""The shapes of requests and answers, with examples: what `/openapi.json` says, and what is checked
of a request before bitkin's own checks see it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Id = Annotated[int, Field(ge=0, strict=True)] | Annotated[str, Field(strict=True)]
Stage = Literal["codes", "estimate", "exact"]
Count = Annotated[int, Field(strict=True)]
Metadata = dict[str, Any]
Where = Annotated[
    dict[str, Any],
    Field(
        description="Which rows, by their metadata: eq, ne, lt, lte, gt, gte, in, contains, "
        "exists; a bare value is eq, a list is in; and, or, not join conditions.",
        examples=[{"year": {"gte": 2020}, "lang": ["en", "fr"]}],
    ),
]
Vectors = Annotated[
    Any,
    Field(
        description='Rows of numbers, or one; {"float32": base64 of little-endian rows}, which is '
        'the fastest; sparse rows as {"indices": [...], "values": [...]}.',
        examples=[[[0.1, 0.2, 0.3]]],
        json_schema_extra={"type": ["array", "object", "null"]},
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchBody(_Body):
    """What to look for: one of vectors, ids, texts and codes."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"vectors": [[0.1, 0.2, 0.3]], "k": 5, "where": {"year": {"gte": 2020}}},
                {"ids": [7], "k": 5, "stage": "codes"},
                {"texts": ["boats in the rain"]},
            ]
        },
    )
    vectors: Vectors = None
    ids: Annotated[
        list[Id] | None, Field(description="Rows whose neighbours to find; each leaves itself out.")
    ] = None
    texts: Annotated[
        list[str] | None, Field(description="Where the collection knows how to embed texts.")
    ] = None
    codes: Annotated[
        list[str] | None, Field(description="Codes in hexadecimal, for stage 'codes'.")
    ] = None
    k: Annotated[Count, Field(description="Neighbours per query.")] = 10
    stage: Annotated[
        Stage | None, Field(description="The last stage; by default the best there is.")
    ] = None
    first: Annotated[
        Literal["codes", "estimate"] | None, Field(description="The stage that looks at all rows.")
    ] = None
    oversample: Annotated[
        Count | None, Field(description="The estimate keeps k times this for the exact stage.")
    ] = None
    probes: Annotated[Count | None, Field(description="Cells to look into.")] = None
    where: Where | None = None
    allow: Annotated[list[Id] | None, Field(description="The only ids that may be returned.")] = (
        None
    )
    metadata: Annotated[bool, Field(description="Whether to return metadata.", strict=True)] = True


class SearchAnswer(BaseModel):
    """A list per query, nearest first; shorter than k where there are not as many rows."""

    ids: list[list[int | str]] = Field(examples=[[[7, 12]]])
    distances: list[list[float | None]] = Field(examples=[[[0.0, 1.25]]])
    metadata: list[list[Metadata]] | None = None
    stage: str = Field(examples=["exact"])
    metric: str = Field(examples=["l2"])


class StageAnswer(BaseModel):
    """What one stage did, for all queries together."""

    seconds: float
    rows_in: int
    rows_out: int


class Explanation(BaseModel):
    """Which stage came first, why, and what every stage did."""

    index: str
    first: str
    why: str
    queries: int
    stages: dict[str, StageAnswer]


class ExplainAnswer(SearchAnswer):
    """What was found, and how."""

    explain: Explanation


class ItemsBody(_Body):
    """Rows to add or replace: one of vectors, texts and codes, with ids and metadata per row."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "ids": [7, 8],
                    "vectors": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
                    "metadata": [{"year": 2020}, {"year": 2021}],
                }
            ]
        },
    )
    vectors: Vectors = None
    texts: Annotated[
        list[str] | None,
        Field(description="To embed; each is kept as metadata under `text_key` too."),
    ] = None
    codes: Annotated[
        list[str | None] | None,
        Field(description="In hexadecimal, for a collection without vectors; null hashes nothing."),
    ] = None
    corrections: Annotated[
        list[tuple[float, float]] | None, Field(description="Two numbers per code, for estimates.")
    ] = None
    ids: Annotated[list[Id] | None, Field(description="One per row; made if absent.")] = None
    metadata: list[Metadata] | None = None
    text_key: Annotated[str, Field(min_length=1)] = "text"


class IdsAnswer(BaseModel):
    """The ids of the rows that were written, in order."""

    ids: list[int | str] = Field(examples=[[7, 8]])


class GetBody(_Body):
    """Which rows: by id, or those that match a filter, a page of them."""

    ids: list[Id] | None = None
    where: Where | None = None
    limit: Annotated[Count, Field(ge=0)] = 20
    offset: Annotated[Count, Field(ge=0, le=2**63 - 1)] = 0
    vectors: Annotated[bool, Field(strict=True)] = False
    codes: Annotated[bool, Field(strict=True)] = False


class Item(BaseModel):
    """One row."""

    id: int | str = Field(examples=[7])
    metadata: Metadata = {}
    vector: Any = None
    code: str | None = None


class ItemsAnswer(BaseModel):
    """Rows, and how many there are in all where a filter or nothing chose them."""

    items: list[Item]
    total: int | None = None


class MetadataBody(_Body):
    """Changes to the metadata of one row; null takes a key away."""

    metadata: Metadata
    replace: Annotated[bool, Field(strict=True)] = False


class MetadataOfIdsBody(_Body):
    """Changes to the metadata of rows: one for all, or one for each."""

    ids: list[Id]
    metadata: Metadata | list[Metadata]
    replace: Annotated[bool, Field(strict=True)] = False


class UpdatedAnswer(BaseModel):
    """How many rows have new metadata."""

    updated: int


class RemoveBody(_Body):
    """Which rows to remove; with `missing` "ignore", those that are not there are passed over."""

    ids: list[Id]
    missing: Literal["error", "ignore"] = "error"


class RemovedAnswer(BaseModel):
    """How many rows were removed."""

    removed: int


class CountBody(_Body):
    """Which rows to count."""

    where: Where | None = None


class CountAnswer(BaseModel):
    """How many rows there are, or match."""

    count: int


class LearnBody(_Body):
    """Vectors to learn from, which are not added."""

    vectors: Vectors


class EpochAnswer(BaseModel):
    """Whether a new epoch has begun."""

    epoch_began: bool


class EpochRow(BaseModel):
    """One epoch."""

    number: int
    fingerprint: str
    rows: int


class EpochsAnswer(BaseModel):
    """The epochs that have rows, and the current one, which comes first."""

    epochs: list[EpochRow]


class RowsAnswer(BaseModel):
    """How many rows that was about."""

    rows: int


class BackupBody(_Body):
    """The name of a folder that is not there yet, among the backups of the service."""

    name: str


class BackupAnswer(BaseModel):
    """The folder that was written."""

    path: str


class CollectionBody(_Body):
    """A collection to make. Of n_features, sample, model and embed, one says what its hasher is:
    random directions for vectors of so many numbers, learned from a sample, a file that bitkin
    saved, or for texts.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"name": "notes", "n_features": 384, "metric": "cosine", "fields": {"year": "int"}}
            ]
        },
    )
    name: str
    n_features: Annotated[Count | None, Field(ge=1, le=1_000_000)] = None
    sample: Vectors = None
    model: Annotated[str | None, Field(description="Base64 of a .bitkin file.")] = None
    embed: Annotated[
        bool, Field(description="Whether its rows are texts, embedded by the service.", strict=True)
    ] = False
    n_bits: Annotated[Count | None, Field(ge=1, le=65_536)] = None
    metric: Literal["l2", "cosine", "ip"] | None = None
    vectors: Literal["float32", "float16", "int8", "csr", "none"] | None = None
    ids: Literal["int", "str"] = "int"
    fields: dict[str, Literal["int", "float", "str", "bool"]] = {}
    index: Literal["auto", "flat", "multi", "bands", "cells"] = "auto"
    stage: Stage | None = None
    oversample: Annotated[Count, Field(ge=1)] = 10


class CollectionAnswer(BaseModel):
    """What there is to say of a collection."""

    model_config = ConfigDict(extra="allow")
    name: str
    rows: int
    metric: str
    ids: str
    vectors: str | None
    codes: str
    embed: str | None


class CollectionsAnswer(BaseModel):
    """All collections that are served."""

    collections: list[CollectionAnswer]


class ServiceAnswer(BaseModel):
    """What this service is, and what the token of the request permits."""

    version: str
    instance: str = Field(description="Of this start of it: what `Idempotency-Instance` may say.")
    collections: list[str]
    several: bool
    read_only: bool
    can_write: bool
    limits: dict[str, float]


class StatusAnswer(BaseModel):
    """Whether the service is there."""

    status: str = Field(examples=["ok"])


class ProblemAnswer(BaseModel):
    """What is wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None
    error: str | None = Field(default=None, description="The class of bitkin's error.")
