import type { KubeConfig } from "@kubernetes/client-node";
import { openInformer, isForbidden, listWatch, type CallOptions, type KubeObject } from "@muster/kube";
import { chooseQueue, indexQueues, type QueueChoice } from "@muster/ledger-client/choose-queue";
import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { makeQueueCheck, type QueueCheckDeps } from "./queue-check.ts";

/** Chooses the queue of a session by its name; empty: the session names no queue. Rejects if the API server cannot confirm whether a Queue exists. */
export type ChooseQueue = (named: string, options?: CallOptions) => Promise<QueueChoice>;

/** The queues that sessions may use. */
export type SessionQueues = AsyncDisposable & {
  readonly choose: ChooseQueue;
  /** Resolves once the labels of the namespace are listed, or refused. */
  readonly synced: Promise<unknown>;
};

type QueueDeps = QueueCheckDeps & {
  readonly kube: KubeConfig;
  /** Namespace of the pods. */
  readonly namespace: string;
  /** The Queues, as the job-controller mirrors them. */
  readonly queues: Pick<View<muster.reservation.v1.Queue>, "entries" | "onChange">;
  /** Called when a session may have another queue. */
  readonly changed: () => void;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

const FIELD = "spec.queue of the session";
const NO_RIGHT =
  "the session controller has no right to read namespaces: deploy/kubernetes/session-controller.yaml grants it";
const NOT_PUBLISHED =
  "Queues exist, and the job-controller has not published them yet: the session waits until it has, or the Queues are deleted";

/**
 * Follows the labels of the namespace. Without the right to read them, only sessions that name a queue need one, and these wait. An empty bucket does not prove
 * that no Queue exists, so the API server is asked for each session that would have none.
 */
export function openQueues(deps: QueueDeps): SessionQueues {
  const { kube, namespace, queues, changed, onProblem } = deps;
  const isUnpublished = makeQueueCheck(deps);
  const choices = new Map<string, QueueChoice>();
  const refused = Promise.withResolvers<undefined>();
  let isRefused = false;
  const renew = (): void => {
    choices.clear();
    changed();
  };
  const namespaces = openInformer<KubeObject, Readonly<Record<string, string>>>({
    source: listWatch(kube, "/api/v1/namespaces", { fieldSelector: `metadata.name=${namespace}` }),
    project: ({ metadata }) => metadata?.labels ?? {},
    onError: (error, retryInMs) => {
      const before = isRefused;
      isRefused = isForbidden(error);
      if (isRefused && before) return;
      if (isRefused) refused.resolve(undefined);
      renew();
      onProblem(error, retryInMs);
    },
  });
  namespaces.onChange(({ before, after }) => {
    if (JSON.stringify(before) !== JSON.stringify(after)) renew();
  });
  queues.onChange(renew);
  const chooseNow = (name: string): QueueChoice => {
    const isListed = Number.isFinite(namespaces.listAgeMs());
    if (!isListed && !isRefused) return { kind: "unlisted" };
    if (!isListed)
      return name === ""
        ? { kind: "none" }
        : { kind: "unknown", message: `the session names the queue "${name}", and ${NO_RIGHT}` };
    const labels = namespaces.get(namespace) ?? {};
    return chooseQueue({ name, field: FIELD }, { name: namespace, labels }, indexQueues(queues.entries()));
  };
  return {
    choose: async (named, options) => {
      const choice = choices.get(named) ?? chooseNow(named);
      if (choice.kind !== "unlisted") choices.set(named, choice);
      const isCertain = choice.kind !== "none" || isRefused;
      return isCertain || !(await isUnpublished(options)) ? choice : { kind: "unknown", message: NOT_PUBLISHED };
    },
    synced: Promise.race([namespaces.synced, refused.promise]),
    [Symbol.asyncDispose]: () => namespaces[Symbol.asyncDispose](),
  };
}
