import { bucketKeys, muster } from "@muster/proto";
import type { View } from "@muster/store";
import { followMark } from "@muster/watch";
import type { Config } from "../config.ts";
import type { NodeFacts } from "../domain/ledger/machines.ts";
import type { LedgerKeeper } from "../ledger-keeper.ts";
import { toNodeFacts, type NodeEntry } from "./messages.ts";

/** The nodes that the watcher published. */
export type NodeView = {
  /** Every live node. */
  list(): NodeFacts[];
  /** Returns whether the watcher's mark proves that the view contains every node. */
  areAllKnown(nowMs: number): boolean;
  /** Reports each change to the keeper, until the returned function is called. */
  follow(keeper: Pick<LedgerKeeper, "observe" | "nodesMarked">): () => void;
};

/** Follows the view until the view is closed. Call this function once per view. */
export function makeNodeView(
  nodes: Pick<View<NodeEntry>, "get" | "entries" | "onChange">,
  { poolLabel, nodesFreshMs }: Pick<Config, "poolLabel" | "nodesFreshMs">,
  monotonicMs: () => number,
): NodeView {
  const markedAtMs = (): number | undefined => {
    const mark = nodes.get(bucketKeys.nodesComplete)?.value;
    return mark?.kind === "complete" ? mark.atMs : undefined;
  };
  const sized = new Map<string, muster.watch.v1.NodeState>();
  /** An older watcher omits fields for amounts and pods. Take them from the last message of the node that had them. */
  const withAmounts = (state: muster.watch.v1.NodeState): muster.watch.v1.NodeState => {
    if (Object.keys(state.allocatable).length > 0) {
      sized.set(state.name, state);
      return state;
    }
    const known = sized.get(state.name);
    if (known === undefined || known.uid !== state.uid) return state;
    const { allocatable, overhead, foreign, shared } = known;
    return muster.watch.v1.NodeState.create({ ...state, allocatable, overhead, foreign, shared });
  };
  const live = (name: string): NodeFacts | undefined => {
    const entry = nodes.get(name)?.value;
    const facts = entry?.kind === "node" ? toNodeFacts(withAmounts(entry.state), poolLabel) : undefined;
    if (facts === undefined) sized.delete(name);
    return facts && { ...facts, name };
  };
  return {
    list: () => nodes.entries().flatMap(({ key }) => live(key) ?? []),
    areAllKnown: followMark(nodes, markedAtMs, { freshMs: nodesFreshMs, monotonicMs }),
    follow: (keeper) =>
      nodes.onChange((name) => {
        if (name === bucketKeys.nodesComplete) keeper.nodesMarked();
        else keeper.observe(name, live(name));
      }),
  };
}
