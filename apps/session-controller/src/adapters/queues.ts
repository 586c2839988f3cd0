import type { KubeConfig } from "@kubernetes/client-node";
import { openInformer, isForbidden, listWatch, type CallOptions, type KubeObject } from "@muster/kube";
import { chooseQueue, indexQueues, isUnserved, type QueueChoice } from "@muster/ledger-client/choose-queue";
import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { describeUnserved } from "../domain/describe-unserved.ts";
import { makeQueueCheck, type QueueCheckDeps } from "./queue-check.ts";

/**
 * Chooses the queue of a session by its name; an empty name: the session names no queue. `namespace` is the namespace of the session; absent: MUSTER_NAMESPACE.
 * Rejects if the API server cannot confirm whether a Queue exists.
 */
export type ChooseQueue = (
  named: string,
  options?: CallOptions & { readonly namespace?: string },
) => Promise<QueueChoice>;

/** The queues that sessions may use. */
export type SessionQueues = AsyncDisposable & {
  readonly choose: ChooseQueue;
  /** Returns whether new sessions of the namespace run; undefined before the labels of the namespaces are listed. */
  readonly servesNamespace: (namespace: string) => boolean | undefined;
  /** Resolves once the labels of the namespaces are listed, or the API server has refused to list them. */
  readonly synced: Promise<unknown>;
};

type QueueDeps = QueueCheckDeps & {
  readonly kube: KubeConfig;
  /** Value of MUSTER_NAMESPACE. */
  readonly namespace: string;
  readonly sessionNamespaces: "own" | "all";
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
 * Follows the labels of the own namespace, or of all namespaces. Without the right to read them, only sessions that name a queue need one, and these sessions
 * wait. An empty bucket does not prove that no Queue exists, so the API server is queried for each session without a queue.
 */
export function openQueues(deps: QueueDeps): SessionQueues {
  const { kube, namespace: own, sessionNamespaces, queues, changed, onProblem } = deps;
  const isAll = sessionNamespaces === "all";
  const isUnpublished = makeQueueCheck(deps);
  const choices = new Map<string, QueueChoice>();
  const refused = Promise.withResolvers<undefined>();
  let isRefused = false;
  const renew = (): void => {
    choices.clear();
    changed();
  };
  const namespaces = openInformer<KubeObject, Readonly<Record<string, string>>>({
    source: listWatch(kube, "/api/v1/namespaces", isAll ? {} : { fieldSelector: `metadata.name=${own}` }),
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
  const chooseNow = (name: string, namespace: string): QueueChoice => {
    const isListed = Number.isFinite(namespaces.listAgeMs());
    if (namespace !== own && (!isAll || isRefused))
      return { kind: "unknown", message: describeUnserved(namespace, own) };
    if (!isListed && !isRefused) return { kind: "unlisted" };
    if (!isListed)
      return name === ""
        ? { kind: "none" }
        : { kind: "unknown", message: `the session names the queue "${name}", and ${NO_RIGHT}` };
    const labels = namespaces.get(namespace) ?? {};
    const choice = chooseQueue({ name, field: FIELD }, { name: namespace, labels }, indexQueues(queues.entries()));
    // Without a Queue, only sessions of MUSTER_NAMESPACE run.
    if (choice.kind !== "none" || namespace === own) return choice;
    return { kind: "unknown", message: describeUnserved(namespace, own) };
  };
  return {
    servesNamespace: (name) => {
      if (name === own) return true;
      if (!isAll || isRefused) return false;
      if (!Number.isFinite(namespaces.listAgeMs())) return undefined;
      const known = indexQueues(queues.entries());
      return known.size > 0 && !isUnserved({ name, labels: namespaces.get(name) ?? {} }, known);
    },
    choose: async (named, { namespace = own, ...call } = {}) => {
      const options = Object.keys(call).length === 0 ? undefined : call;
      const key = `${namespace}/${named}`;
      const choice = choices.get(key) ?? chooseNow(named, namespace);
      if (choice.kind !== "unlisted") choices.set(key, choice);
      const isCertain = choice.kind !== "none" || isRefused;
      return isCertain || !(await isUnpublished(options)) ? choice : { kind: "unknown", message: NOT_PUBLISHED };
    },
    synced: Promise.race([namespaces.synced, refused.promise]),
    [Symbol.asyncDispose]: () => namespaces[Symbol.asyncDispose](),
  };
}
