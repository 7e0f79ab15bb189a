"""What becomes of a conversation on its way to a model, planned and done, in protobuf."""

from jackline.v1 import event_pb2, plan_pb2
from jackline_server.codec.enums import COMPACTION_KIND, COMPACTION_MODE
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.core.facts import Compacted, HistoryRepaired
from jackline_server.core.plan import CompactionPlan, PrunePlan
from jackline_server.core.repairs import Repairs


def set_compaction(into: plan_pb2.CompactionPlan, plan: CompactionPlan) -> None:
    """Write how a conversation is kept short."""
    into.mode = COMPACTION_MODE.wire[plan.mode]
    into.at_permille = plan.at_permille
    into.to_permille = plan.to_permille
    into.model = plan.model
    if plan.prune is not None:
        into.prune.keep_tokens = plan.prune.keep_tokens
        into.prune.save_tokens = plan.prune.save_tokens
        into.prune.SetInParent()


def read_compaction(found: plan_pb2.CompactionPlan) -> CompactionPlan:
    """How a conversation is kept short."""
    prune = found.prune
    return CompactionPlan(
        mode=COMPACTION_MODE.read(found.mode),
        at_permille=found.at_permille,
        to_permille=found.to_permille,
        model=found.model,
        prune=PrunePlan(keep_tokens=prune.keep_tokens, save_tokens=prune.save_tokens)
        if found.HasField("prune")
        else None,
    )


def _pack_repaired(fact: HistoryRepaired, event: event_pb2.StepEvent) -> None:
    into, repairs = event.history_repaired, fact.repairs
    into.dangling = repairs.dangling
    into.orphans = repairs.orphans
    into.moved = repairs.moved
    into.empty = repairs.empty
    into.merged = repairs.merged
    into.quoted = repairs.quoted
    into.renamed = repairs.renamed
    into.demoted = repairs.demoted
    into.unasked = repairs.unasked
    into.SetInParent()


def _unpack_repaired(event: event_pb2.StepEvent) -> HistoryRepaired:
    found = event.history_repaired
    return HistoryRepaired(
        repairs=Repairs(
            dangling=found.dangling,
            orphans=found.orphans,
            moved=found.moved,
            empty=found.empty,
            merged=found.merged,
            quoted=found.quoted,
            renamed=found.renamed,
            demoted=found.demoted,
            unasked=found.unasked,
        )
    )


def _pack_compacted(fact: Compacted, event: event_pb2.StepEvent) -> None:
    into = event.compacted
    into.kind = COMPACTION_KIND.wire[fact.kind]
    into.overflow = fact.overflow
    into.kept_from = fact.kept_from
    into.pruned_to = fact.pruned_to
    into.turns = fact.turns
    into.results = fact.results
    into.tokens_before = fact.tokens_before
    into.tokens_after = fact.tokens_after


def _fill_compacted(fact: Compacted, content: event_pb2.Content) -> None:
    if fact.summary:
        content.compacted.summary = fact.summary


def _unpack_compacted(event: event_pb2.StepEvent) -> Compacted:
    found = event.compacted
    return Compacted(
        kind=COMPACTION_KIND.read(found.kind),
        overflow=found.overflow,
        kept_from=found.kept_from,
        pruned_to=found.pruned_to,
        turns=found.turns,
        results=found.results,
        tokens_before=found.tokens_before,
        tokens_after=found.tokens_after,
        summary=event.content.compacted.summary,
    )


HISTORY_FACTS = (
    FactCoder(
        fact=Compacted,
        field="compacted",
        pack=_pack_compacted,
        fill=_fill_compacted,
        unpack=_unpack_compacted,
    ),
    FactCoder(fact=HistoryRepaired, field="history_repaired", pack=_pack_repaired, unpack=_unpack_repaired),
)
