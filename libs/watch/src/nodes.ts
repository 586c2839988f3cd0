import { decideLost, isUsable, MARK_FRESH_MS, type LostReason, type NodeFact } from "@muster/health";
import { findUntolerated, type Toleration } from "@muster/resources";
import { bucketKeys, buckets, muster } from "@muster/proto";
import { openBucket, openView, makeProtoCodec, type View } from "@muster/store";
import { followMark } from "./mark.ts";

/** The lost nodes, as the watcher publishes them. */
export type Nodes = {
  /**
   * Returns the lost nodes of `names` with the reason, for work whose pods are on the `occupied` ones. Returns none while the watcher or its bucket is not
   * current.
   */
  lostAmong(
    names: Iterable<string>,
    about: {
      readonly nowMs: number;
      readonly occupied: ReadonlySet<string>;
      /** The tolerations of the pods of each node. A node is not lost because of taints that these cover. */
      readonly tolerations?: ReadonlyMap<string, readonly Toleration[]>;
    },
  ): ReadonlyMap<string, LostReason>;
  /**
   * Returns the nodes of `names` on which pods with the given tolerations for the node can start now. Returns none while the watcher or its bucket is not
   * current.
   */
  usableAmong(
    names: Iterable<string>,
    nowMs: number,
    tolerations?: ReadonlyMap<string, readonly Toleration[]>,
  ): ReadonlySet<string>;
  /** The watcher's published state of the node; undefined: it is unknown, or the watcher or its bucket is not current. */
  stateOf(name: string, nowMs: number): muster.watch.v1.NodeState | undefined;
  /** Milliseconds since the view was last known to be current. */
  ageMs(): number;
};

type NodesOptions = {
  readonly lostAfterMs: number;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

/** Follows the watcher's bucket of node states. */
export async function openNodes(
  connection: Parameters<typeof openBucket>[0],
  { lostAfterMs, onProblem }: NodesOptions,
): Promise<Nodes & AsyncDisposable> {
  const { NodeState, NodesComplete } = muster.watch.v1;
  const stateBucket = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodeState) });
  const markBucket = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodesComplete) });
  await using undo = new AsyncDisposableStack();
  const states = undo.use(await openView(stateBucket, { onProblem }));
  const marks = undo.use(await openView(markBucket, { filter: bucketKeys.nodesComplete, onProblem }));
  const opened = undo.move();
  return { ...viewNodes({ states, marks, lostAfterMs }), [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose]() };
}

/** Builds `Nodes` as `openNodes` does, on existing views of the caller. */
export function viewNodes({
  states,
  marks,
  lostAfterMs,
}: {
  readonly states: Pick<View<muster.watch.v1.NodeState>, "get" | "ageMs">;
  readonly marks: Pick<View<muster.watch.v1.NodesComplete>, "get" | "ageMs" | "onChange">;
  readonly lostAfterMs: number;
}): Nodes {
  const isMarked = followMark(marks, () => marks.get(bucketKeys.nodesComplete)?.value.atMs, { freshMs: MARK_FRESH_MS });
  const isCurrent = (nowMs: number): boolean => states.ageMs() === 0 && isMarked(nowMs);
  return {
    lostAmong: (names, { nowMs, occupied, tolerations }) => {
      if (!isCurrent(nowMs)) return new Map();
      const lost = new Map<string, LostReason>();
      for (const name of names) {
        const about = { nowMs, lostAfterMs, occupied: occupied.has(name) };
        const because = decideLost(applyTolerations(states.get(name)?.value, tolerations?.get(name)), about);
        if (because !== undefined) lost.set(name, because);
      }
      return lost;
    },
    usableAmong: (names, nowMs, tolerations) => {
      if (!isCurrent(nowMs)) return new Set();
      const isUsableNow = (name: string): boolean =>
        isUsable(applyTolerations(states.get(name)?.value, tolerations?.get(name)));
      return new Set([...names].filter(isUsableNow));
    },
    stateOf: (name, nowMs) => (isCurrent(nowMs) ? states.get(name)?.value : undefined),
    ageMs: () => Math.max(states.ageMs(), marks.ageMs()),
  };
}

/** The node as pods with these tolerations find it. */
function applyTolerations(
  state: muster.watch.v1.NodeState | undefined,
  tolerations: readonly Toleration[] = [],
): NodeFact | undefined {
  return state !== undefined && areTaintsTolerated(state, tolerations) ? { ...state, schedulable: true } : state;
}

/** Whether pods with these tolerations can be started on a node that is not schedulable for others. */
function areTaintsTolerated(
  { cordoned, unopened, taints }: muster.watch.v1.NodeState,
  tolerations: readonly Toleration[],
): boolean {
  return !cordoned && !unopened && taints.length > 0 && findUntolerated(taints, tolerations) === undefined;
}
