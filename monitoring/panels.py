"""Panels that cannot be made without what a reader needs: a title, what it shows, its unit, and words for no data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from steelyard_workers.clock import State

Panel = Builder[models.Panel]
DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
UNKNOWN = "not known"

SHARE, SECONDS, BYTES, COUNT, PER_SECOND, TIME = "percentunit", "s", "bytes", "short", "suffix: /s", "dateTimeFromNow"
GPUS, GPU_HOURS, WORD = "suffix: GPUs", "suffix: GPU h", "string"

COLORS: Mapping[str, Mapping[str, str]] = {
    "{{stage}}": {"sampler": "blue", "environment": "purple", "reward-server": "yellow", "trainer": "green"},
    "{{state}}": {
        State.BUSY: "green",
        State.TOOL: "blue",
        State.TOKENS: "light-blue",
        State.SYNC: "purple",
        State.DRAIN: "light-purple",
        State.BLOCKED: "dark-orange",
        State.PACED: "orange",
        State.STARVED: "light-orange",
    },
}
"""Legend -> name of its series -> colour, on every panel the same: green and blue is work, orange is waiting."""
DASHED = {"fill": "dash", "dash": [10, 10]}

HEIGHT, STRIP = 8, 4
LANES = 20
"""Shown at once; further ones are on a next page."""
METRIC = re.compile(r"\b(?:steelyard|vllm|container|kubelet|DCGM|process)[_:]\w+(?=\{)")

Chart = TypeVar(
    "Chart", timeseries.Panel, stat.Panel, statetimeline.Panel, bargauge.Panel, table.Panel
)  # they share no base with these methods


@dataclass(frozen=True)
class Query:
    """One query and the name of its series."""

    expression: str
    legend: str = ""
    bound: bool = False
    """Whether the others may not go beyond it: its line is dashed."""


@dataclass(frozen=True)
class Column:
    """One figure of a table, by the labels that make its rows."""

    title: str
    expression: str
    unit: str = COUNT
    hidden: bool = False
    """Of a query whose label is the column, and not its value."""


def graph(
    title: str,
    what: str,
    unit: str,
    *queries: Query,
    width: int = 12,
    stacked: bool = False,
    nothing: str = UNKNOWN,
    least: float | None = 0,
    most: float | None = None,
) -> timeseries.Panel:
    """Lines over time, or areas that sum to something; `least` and `most` bound the axis."""
    panel = _described(timeseries.Panel(), title, what, unit, queries, width, HEIGHT, nothing)
    panel.fill_opacity(60 if stacked else 8).line_width(0 if stacked else 1).show_points(options.VisibilityMode.AUTO)
    panel.tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    panel.legend(
        common.VizLegendOptions()
        .display_mode(options.LegendDisplayMode.TABLE)
        .placement(options.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["mean", "lastNotNull"])
    )
    for query in queries:
        for name, color in COLORS.get(query.legend, {}).items():
            fixed = {"mode": "fixed", "fixedColor": color}
            panel.override_by_name(name, [models.DynamicConfigValue("color", fixed)])
        if query.bound:
            line = {"custom.lineStyle": DASHED, "custom.fillOpacity": 0}
            pattern = re.sub(r"{{\w+}}", ".+", query.legend)
            panel.override_by_regexp(f"/^{pattern}$/", [models.DynamicConfigValue(*part) for part in line.items()])
    if stacked:
        panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("A"))
    if least is not None:
        panel.min(least)
    return panel.max(most) if most is not None else panel


def figure(
    title: str,
    what: str,
    unit: str,
    query: Query,
    *,
    width: int = 4,
    nothing: str = UNKNOWN,
    steps: Sequence[tuple[float, str]] = (),
) -> stat.Panel:
    """One number, or one for each series; `steps` are values from which it takes a colour."""
    panel = _described(stat.Panel(), title, what, unit, [query], width, STRIP, nothing)
    panel.graph_mode(options.BigValueGraphMode.AREA)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return panel.thresholds(_thresholds(steps)).color_mode(options.BigValueColorMode.VALUE)


def word(title: str, what: str, query: Query, *, width: int = 4, nothing: str = UNKNOWN) -> stat.Panel:
    """The name of the series that is there now, such as a phase."""
    panel = _described(stat.Panel(), title, what, WORD, [query], width, STRIP, nothing, instant=True)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return panel.text_mode(options.BigValueTextMode.NAME).graph_mode(options.BigValueGraphMode.NONE)


def lanes(
    title: str,
    what: str,
    query: Query,
    *,
    width: int = 24,
    nothing: str = UNKNOWN,
    true: str = "yes",
    color: str = "blue",
) -> statetimeline.Panel:
    """A lane for each series, filled while it is 1."""
    panel = _described(statetimeline.Panel(), title, what, WORD, [query], width, HEIGHT, nothing)
    panel.show_value(options.VisibilityMode.NEVER).merge_values(True).row_height(0.8).per_page(LANES)
    mapping = models.ValueMap(
        options={
            "0": models.ValueMappingResult(text="no", color="transparent", index=0),
            "1": models.ValueMappingResult(text=true, color=color, index=1),
        }
    )
    return panel.mappings([mapping])


def bars(title: str, what: str, unit: str, query: Query, *, width: int = 12, nothing: str = UNKNOWN) -> bargauge.Panel:
    """A bar for each series, now."""
    panel = _described(bargauge.Panel(), title, what, unit, [query], width, HEIGHT, nothing, instant=True)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)).min(0)
    return panel.orientation(options.VizOrientation.HORIZONTAL).display_mode(options.BarGaugeDisplayMode.GRADIENT)


def rows(
    title: str,
    what: str,
    *columns: Column,
    labels: Mapping[str, str],
    links: Mapping[str, str] | None = None,
    nothing: str = UNKNOWN,
) -> table.Panel:
    """A row for each set of labels; `labels` name the columns that hold them, `links` lead on from one of these."""
    queries = [Query(column.expression) for column in columns]
    panel = _described(table.Panel(), title, what, COUNT, queries, 24, HEIGHT + 2, nothing, instant=True)
    names = {f"Value #{ref}": column for ref, column in zip(ascii_uppercase, columns, strict=False)}
    hidden = ["Time", *(name for name, column in names.items() if column.hidden)]
    shown = {**labels, **{name: column.title for name, column in names.items() if not column.hidden}}
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        models.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": dict.fromkeys(hidden, True),
                "renameByName": shown,
                "indexByName": {name: index for index, name in enumerate(shown)},
            },
        )
    )
    for column in columns:
        if not column.hidden:
            panel.override_by_name(column.title, [models.DynamicConfigValue("unit", column.unit)])
    for name, url in (links or {}).items():
        link = {"title": "Open", "url": url}
        panel.override_by_name(name, [models.DynamicConfigValue("links", [link])])
    return panel.filterable(True)


def _described(
    panel: Chart,
    title: str,
    what: str,
    unit: str,
    queries: Sequence[Query],
    width: int,
    height: int,
    nothing: str,
    *,
    instant: bool = False,
) -> Chart:
    shown = isinstance(panel, table.Panel)
    panel.title(title).description(f"{what}\n\n{_sources(queries)}").unit(unit).datasource(DATASOURCE)
    panel.span(width).height(height).no_value(nothing)
    for ref, query in zip(ascii_uppercase, queries, strict=False):
        panel.with_target(_target(ref, query, instant=instant, as_table=shown))
    return panel


def _sources(queries: Iterable[Query]) -> str:
    names = dict.fromkeys(name for query in queries for name in METRIC.findall(query.expression))
    return "From " + ", ".join(f"`{name}`" for name in names) + "."


def _target(ref: str, query: Query, *, instant: bool, as_table: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).ref_id(ref).datasource(DATASOURCE)
    target.legend_format(query.legend or "__auto").editor_mode(QueryEditorMode.CODE)
    if as_table:
        target.format(PromQueryFormat.TABLE)
    return target.instant() if instant else target.range()


def _thresholds(steps: Sequence[tuple[float, str]]) -> builders.ThresholdsConfig:
    found = [models.Threshold(value=None, color="text"), *(models.Threshold(value, color) for value, color in steps)]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(found)
