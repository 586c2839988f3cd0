import type { NatsBus } from "@muster/bus";
import { computeBackoffMs } from "@muster/backoff";
import { runPeriodically } from "@muster/controller";
import { findFault } from "@muster/faults";
import { isForbidden, withKubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { chooseQueue, indexQueues, type QueueChoice } from "@muster/ledger-client/choose-queue";
import { buckets, muster } from "@muster/proto";
import { openBucket, openView, makeProtoCodec } from "@muster/store";

/** The queues that sets may use. */
export type SetQueues = AsyncDisposable & {
  /** Chooses the queue of a set by its label; empty: the set has no label. */
  readonly choose: (named: string) => QueueChoice;
};

type SetQueuesDeps = {
  readonly connection: NatsBus["connection"];
  readonly calls: Pick<KubeCalls, "get">;
  /** Namespace of the pods. */
  readonly namespace: string;
  readonly signal: AbortSignal;
  /** Called when a set may have another queue. */
  readonly changed: () => void;
  readonly onProblem: (what: string, error: unknown, retryInMs: number) => void;
};

type Labels = Readonly<Record<string, string>>;

const FIELD = "the label muster.dev/queue of the set";
const NO_RIGHT =
  "the replication-farm has no right to read its namespace: deploy/kubernetes/replication-farm.yaml grants it";
/** Poll interval of the namespace's labels. */
const LABELS_MS = 5000;
const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Follows the queues that the job-controller publishes, and polls the labels of the namespace. */
export async function openSetQueues(deps: SetQueuesDeps): Promise<SetQueues> {
  const { connection, calls, namespace, changed, onProblem } = deps;
  await using undo = new AsyncDisposableStack();
  const bucket = await openBucket(connection, {
    name: buckets.queues,
    codec: makeProtoCodec(muster.reservation.v1.Queue),
  });
  const failed = (error: unknown, retryInMs: number): void => onProblem("queues", error, retryInMs);
  const view = undo.use(await openView(bucket, { signal: deps.signal, onProblem: failed }));
  view.onChange(changed);
  let labels: Labels | "refused" | undefined;
  const stopping = new AbortController();
  const reading = runPeriodically({
    name: "replica-set-namespace",
    work: async () => {
      const before = JSON.stringify(labels);
      labels = await readLabels(calls, namespace);
      if (JSON.stringify(labels) !== before) changed();
    },
    everyMs: LABELS_MS,
    retry: RETRY,
    onError: (error, failures) => {
      if (findFault(error) === undefined) throw error;
      onProblem(
        "the labels of the namespace",
        error,
        computeBackoffMs(failures, RETRY, () => 1),
      );
    },
    stop: stopping.signal,
  });
  undo.defer(async () => {
    stopping.abort();
    await reading;
  });
  const opened = undo.move();
  return {
    choose: (named) => {
      const queues = indexQueues(view.entries());
      if (labels === undefined) return { kind: "unlisted" };
      if (labels !== "refused") return chooseQueue({ name: named, field: FIELD }, { name: namespace, labels }, queues);
      // Without any Queue, no set needs a permission to use one.
      return named === "" && queues.size === 0 ? { kind: "none" } : { kind: "unknown", message: NO_RIGHT };
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function readLabels(calls: Pick<KubeCalls, "get">, namespace: string): Promise<Labels | "refused"> {
  try {
    const found = await withKubeFault(calls.get<KubeObject>({ apiVersion: "v1", plural: "namespaces" }, namespace));
    return found.metadata?.labels ?? {};
  } catch (error) {
    if (isForbidden(error)) return "refused";
    throw error;
  }
}
