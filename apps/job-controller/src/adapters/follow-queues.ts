import type { KubeConfig } from "@kubernetes/client-node";
import { makeBell, type Bell } from "@muster/backoff";
import {
  openInformer,
  listWatch,
  type Informer,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
} from "@muster/kube";
import type { Logger } from "@muster/service";
import {
  chooseQueue,
  isUnserved,
  QUEUE_LABEL,
  type QueueChoice,
  type SeenQueue,
} from "@muster/ledger-client/choose-queue";
import { readQueueRow, type QueueObject, type QueueRow } from "../domain/queues/queue-row.ts";
import { findResource } from "../members/find-resource.ts";

export const QUEUES: KubeResource = { apiVersion: "muster.dev/v1", plural: "queues" };
const NAMESPACES: KubeResource = { apiVersion: "v1", plural: "namespaces" };

/** The Queues of the cluster, if it serves them, and the labels of the namespaces with work. */
export type Queues = AsyncDisposable & {
  /** Follows queues from the installation of their definition until its removal. Rejects if the API server does not report whether it is installed. */
  discover(): Promise<void>;
  /** Returns every Queue by name, and an empty map without the definition; undefined before the first list, or without the right to read queues. */
  rows(): ReadonlyMap<string, QueueRow> | undefined;
  /** Chooses the queue of a job with these labels in the namespace, or in the served namespace if `namespace` is absent. */
  choose(labels: Readonly<Record<string, string>> | undefined, namespace?: string): QueueChoice;
  /** The time after its grant within which a gang of the queue must be ready; undefined without such a limit, or before the queues are listed. */
  readonly readyTimeoutOf: (queue: string) => number | undefined;
  /** Whether queues exist but none serves the namespace of the jobs. */
  isUnserved(): boolean;
  /** Whether a queue may have work of the namespace; undefined before the queues are listed. */
  isServed(namespace: string): boolean | undefined;
  /** Whether the controller has no right to read queues or namespaces. */
  isRefused(): boolean;
  /** Rings when the bucket of queues may differ from the Queues. At most one caller waits. */
  readonly changes: Pick<Bell, "ring" | "wait">;
};

type FollowQueuesDeps = {
  readonly kube: KubeConfig;
  readonly calls: Pick<KubeCalls, "list">;
  readonly namespace: string;
  /** Set if work of other namespaces has queues too. */
  readonly hasOtherNamespaces?: boolean;
  /** Called when the queue of any job may have changed. */
  readonly changed: () => void;
  readonly logger: Pick<Logger, "info" | "warn">;
};

type Labels = Readonly<Record<string, string>>;
type Followed = { readonly queues: Informer<QueueRow>; readonly namespaces: Informer<Labels> };

/** An API server that is still loading definitions may report each as missing once, so a second answer confirms the absence. */
const ABSENCES = 2;
/** Changes of many queues within this time wake the jobs once. */
const GATHER_MS = 100;
const NO_RIGHT =
  "the controller has no right to read queues and namespaces: deploy/kubernetes/job-controller.yaml grants it";

/** Opens the queues; follows no queue before `discover`. */
export function openQueues(deps: FollowQueuesDeps): Queues {
  const { calls, namespace, logger } = deps;
  const changes = makeBell();
  /** The choices by namespace and label; the map is emptied after each change of a queue or a namespace. */
  const choices = new Map<string, QueueChoice>();
  let followed: Followed | undefined;
  let absences = 0;
  let isRefused = false;

  let waking: NodeJS.Timeout | undefined;

  const renew = (): void => {
    choices.clear();
    served.forget();
    changes.ring();
    waking ??= setTimeout(() => {
      waking = undefined;
      deps.changed();
    }, GATHER_MS);
  };
  const rows = (): ReadonlyMap<string, QueueRow> | undefined => {
    if (followed !== undefined) return isListed(followed) ? indexRows(followed) : undefined;
    return absences >= ABSENCES ? new Map<string, QueueRow>() : undefined;
  };
  const served = remember((ofWork) => findServed(ofWork, rows(), followed) ?? (isRefused ? false : undefined));
  const chooseNow = (labels: Labels | undefined, ofJob: string): QueueChoice => {
    const named = labels?.[QUEUE_LABEL] ?? "";
    if (followed === undefined && isRefused)
      return named === ""
        ? { kind: "none" }
        : { kind: "unknown", message: `the job names the queue "${named}", and ${NO_RIGHT}` };
    // If the definition is missing, one answer suffices, so that jobs need not wait for a second answer.
    const known = followed === undefined && absences > 0 ? new Map<string, QueueRow>() : rows();
    if (known === undefined) return { kind: "unlisted" };
    const ofNamespace = followed?.namespaces.get(ofJob) ?? {};
    const wanted = { name: named, field: `the label ${QUEUE_LABEL} of the job` };
    return chooseQueue(wanted, { name: ofJob, labels: ofNamespace }, new Map<string, SeenQueue>(known));
  };

  return {
    rows,
    changes,
    isUnserved: () => (rows()?.size ?? 0) > 0 && served.ask(namespace) === false,
    isServed: served.ask,
    readyTimeoutOf: (queue) => getReadyTimeout(followed?.queues.get(queue)),
    isRefused: () => isRefused,
    choose: (labels, ofJob = namespace) => {
      const key = `${ofJob}/${labels?.[QUEUE_LABEL] ?? ""}`;
      const choice = choices.get(key) ?? chooseNow(labels, ofJob);
      if (choice.kind !== "unlisted") choices.set(key, choice);
      return choice;
    },
    discover: async () => {
      const found = await findQueues(calls, buildSelector(deps));
      const wasRefused = isRefused;
      const before = absences;
      isRefused = found === "refused";
      absences = found === "absent" ? Math.min(ABSENCES, absences + 1) : 0;
      if (isRefused && !wasRefused) logger.warn({ rights: "queues.muster.dev, namespaces" }, NO_RIGHT);
      if (found === "served" && followed === undefined) {
        followed = follow(deps, renew);
        logger.info({}, "queues are installed; jobs have queues from now on");
      }
      const over = absences >= ABSENCES ? followed : undefined;
      if (over !== undefined) followed = undefined;
      if (isRefused !== wasRefused || absences !== before) renew();
      if (over !== undefined) await end(over);
    },
    [Symbol.asyncDispose]: async () => {
      clearTimeout(waking);
      if (followed !== undefined) await end(followed);
    },
  };
}

/** Whether one of the queues may have work of the namespace; undefined while the queues are unknown. */
function findServed(
  name: string,
  queues: ReadonlyMap<string, QueueRow> | undefined,
  followed: Followed | undefined,
): boolean | undefined {
  if (queues === undefined) return undefined;
  return queues.size > 0 && !isUnserved({ name, labels: followed?.namespaces.get(name) ?? {} }, queues);
}

/** Caches answers until they are forgotten; undefined is never cached. */
function remember(find: (namespace: string) => boolean | undefined): {
  readonly ask: typeof find;
  readonly forget: () => void;
} {
  const known = new Map<string, boolean>();
  return {
    ask: (namespace) => {
      const answer = known.get(namespace) ?? find(namespace);
      if (answer !== undefined) known.set(namespace, answer);
      return answer;
    },
    forget: () => known.clear(),
  };
}

function getReadyTimeout(queue: QueueRow | undefined): number | undefined {
  const { readyTimeoutMs = 0 } = queue?.record ?? {};
  return readyTimeoutMs === 0 ? undefined : readyTimeoutMs;
}

/** Whether queues can be followed: they are installed, and the controller may read both them and the namespaces. */
async function findQueues(
  calls: Pick<KubeCalls, "list">,
  namespaces: ReturnType<typeof buildSelector>,
): Promise<"served" | "absent" | "refused"> {
  const queues = await findResource(calls, QUEUES);
  if (queues !== "served") return queues;
  return (await findResource(calls, NAMESPACES, namespaces)) === "served" ? "served" : "refused";
}

function follow(deps: FollowQueuesDeps, changed: () => void): Followed {
  const { kube, logger } = deps;
  const onError = (error: unknown, retryInMs: number): void =>
    logger.warn({ err: error, retryInMs }, "following queues is interrupted");
  const queues = openInformer<KubeObject & QueueObject, QueueRow>({
    source: listWatch(kube, `/apis/${QUEUES.apiVersion}/${QUEUES.plural}`),
    project: readQueueRow,
    onError,
  });
  const namespaces = openInformer<KubeObject, Labels>({
    source: listWatch(kube, `/api/v1/${NAMESPACES.plural}`, buildSelector(deps)),
    project: ({ metadata }) => metadata?.labels ?? {},
    onError,
  });
  queues.onChange(({ before, after }) => {
    if (isOtherQueue(before, after)) changed();
  });
  namespaces.onChange(({ before, after }) => {
    if (JSON.stringify(before) !== JSON.stringify(after)) changed();
  });
  // An empty first list changes no row, so its completion must be reported too. A cache that is disposed of before its first list rejects.
  Promise.all([queues.synced, namespaces.synced]).then(changed, () => undefined);
  return { queues, namespaces };
}

/** Whether anything but the status has changed. */
function isOtherQueue(before: QueueRow | undefined, after: QueueRow | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return (
    before.uid !== after.uid ||
    before.generation !== after.generation ||
    before.isDeleting !== after.isDeleting ||
    before.finalizers.join() !== after.finalizers.join()
  );
}

function isListed({ queues, namespaces }: Followed): boolean {
  return Number.isFinite(queues.listAgeMs()) && Number.isFinite(namespaces.listAgeMs());
}

function indexRows({ queues }: Followed): ReadonlyMap<string, QueueRow> {
  const rows = queues.list().map((row) => [row.name, row] as const);
  return new Map(rows.sort(([one], [other]) => (one < other ? -1 : 1)));
}

async function end({ queues, namespaces }: Followed): Promise<void> {
  await Promise.all([queues[Symbol.asyncDispose](), namespaces[Symbol.asyncDispose]()]);
}

function buildSelector({
  namespace,
  hasOtherNamespaces = false,
}: Pick<FollowQueuesDeps, "namespace" | "hasOtherNamespaces">): { readonly fieldSelector?: string } {
  return hasOtherNamespaces ? {} : { fieldSelector: `metadata.name=${namespace}` };
}
