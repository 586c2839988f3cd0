import { isMarkFresh } from "@muster/health";
import { bucketKeys, buckets, muster } from "@muster/proto";
import { openBucket, openView, protoCodec } from "@muster/store";
import { isLost } from "../domain/decide-lost.ts";

export type Nodes = AsyncDisposable & {
  /** Those that are lost to a job whose pods are on the `occupied` ones. None while it is not known. */
  lostAmong(
    names: Iterable<string>,
    about: { readonly nowMs: number; readonly occupied: ReadonlySet<string> },
  ): string[];
  /** Milliseconds since the view was last known to be current. */
  ageMs(): number;
};

export type NodesOptions = {
  readonly lostAfterMs: number;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

/** The watcher renews its mark every 30 seconds; after three times of that it has not looked. */
export const MARK_FRESH_MS = 90_000;

/** Follows what the watcher tells of nodes. */
export async function openNodes(
  connection: Parameters<typeof openBucket>[0],
  { lostAfterMs, onProblem }: NodesOptions,
): Promise<Nodes> {
  const { NodeState, NodesComplete } = muster.watch.v1;
  const states = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodesComplete) });
  await using undo = new AsyncDisposableStack();
  const view = undo.use(await openView(states, { onProblem }));
  const mark = undo.use(await openView(marks, { filter: bucketKeys.nodesComplete, onProblem }));
  const opened = undo.move();
  return {
    lostAmong: (names, { nowMs, occupied }) => {
      const markedMs = mark.get(bucketKeys.nodesComplete)?.value.atMs;
      if (view.ageMs() > 0 || !isMarkFresh(markedMs, MARK_FRESH_MS, nowMs)) return [];
      return [...names].filter((name) =>
        isLost(view.get(name)?.value, { nowMs, lostAfterMs, occupied: occupied.has(name) }),
      );
    },
    ageMs: () => Math.max(view.ageMs(), mark.ageMs()),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}
