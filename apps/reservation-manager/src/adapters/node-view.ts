import { bucketKeys, muster } from "@muster/proto";
import type { View } from "@muster/store";
import { followMark } from "@muster/watch";
import type { Config } from "../config.ts";
import type { NodeFacts } from "../domain/ledger/machines.ts";
import type { LedgerKeeper } from "../ledger-keeper.ts";
import { toNodeFacts, type NodeEntry } from "./messages.ts";

/** The nodes as the watcher publishes them. */
export type NodeView = {
  /** Every live node. */
  list(): NodeFacts[];
  /** Whether the watcher's mark proves that the view lacks no node. */
  areAllKnown(nowMs: number): boolean;
  /** Reports each change to the keeper, until the returned function is called. */
  follow(keeper: Pick<LedgerKeeper, "observe" | "nodesMarked">): () => void;
};

/** Call it once for each view; it follows the view until that is closed. */
export function nodeView(
  nodes: Pick<View<NodeEntry>, "get" | "entries" | "onChange">,
  { poolLabel, nodesFreshMs }: Pick<Config, "poolLabel" | "nodesFreshMs">,
  monotonicMs: () => number,
): NodeView {
  const markedAtMs = (): number | undefined => {
    const mark = nodes.get(bucketKeys.nodesComplete)?.value;
    return mark?.kind === "complete" ? mark.atMs : undefined;
  };
  const sized = new Map<string, muster.watch.v1.NodeState>();
  /** A watcher of an earlier version omits amounts and pods that it does not know; then they are as the last one that did wrote them. */
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
