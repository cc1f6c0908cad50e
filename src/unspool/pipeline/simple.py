"""The plainest driver: everything in this process and in memory. For a handful of files."""

from collections.abc import Iterable

from unspool import sources
from unspool.io.origins import Origin, Tally
from unspool.link import Card, apply_patch, link, make_card
from unspool.pipeline.collect import Collection
from unspool.pipeline.enrich import enrich
from unspool.reduce import reduce_facts
from unspool.trajectory import Trajectory


def read_origins(origins: Iterable[Origin], tally: Tally) -> Collection:
    collection = Collection()
    for origin in origins:
        collection.take(origin.source, sources.read(origin, tally))
    return collection


def finish(
    collection: Collection, merge_tool_metadata: bool = True
) -> tuple[list[Trajectory], int]:
    """All trajectories in order, linked and enriched; and how many records were superseded."""
    made: list[Trajectory] = []
    cards: list[Card] = []
    superseded = 0
    for key, gathered in collection.in_order():
        current = sources.current_of(key, gathered.source)
        reduction = reduce_facts(key, gathered.all_facts(), current, merge_tool_metadata)
        superseded += reduction.superseded
        for trajectory, naming in reduction.conversations():
            made.append(trajectory)
            cards.append(make_card(trajectory, naming))
    patches = link(cards)
    kept: list[Trajectory] = []
    for trajectory in made:
        patch = patches.get((trajectory.source, trajectory.conversation_id))
        if patch is None or not patch.absorbed:
            apply_patch(trajectory, patch)
            enrich(trajectory)
            kept.append(trajectory)
    return kept, superseded
