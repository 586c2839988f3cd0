import { setTimeout as sleep } from "node:timers/promises";
import { openInformer, listWatch, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { parseAmount } from "@muster/resources";
import type { QueueSeen } from "./domain/observed.ts";
import { buildQueues, type TeamQueue } from "./domain/plan-queues.ts";

/** Observes every status of every queue, past the injected faults. */
export type QueueObserver = AsyncDisposable & { readonly seen: () => readonly QueueSeen[] };

type QueueObject = KubeObject & {
  readonly status?: {
    readonly reason?: string;
    readonly pending?: number;
    readonly admitted?: number;
    readonly pools?: readonly {
      readonly pool: string;
      readonly resources?: readonly { readonly name: string; readonly used?: string }[];
    }[];
  };
};

type Kept = Omit<QueueSeen, "maxUsed">;

const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const POLL_MS = 100;

export async function startQueueObserver(kubeconfig: string): Promise<QueueObserver> {
  const maxima = new Map<string, Map<string, number>>();
  const queues = openInformer<QueueObject, Kept>({
    source: listWatch<QueueObject>(loadKube(kubeconfig), "/apis/muster.dev/v1/queues"),
    project: keep,
    timing: { minBackoffMs: 50, maxBackoffMs: 500 },
  });
  queues.onChange(({ after }) => {
    if (after === undefined) return;
    const max = maxima.get(after.name) ?? new Map<string, number>();
    maxima.set(after.name, max);
    for (const [pair, used] of after.used) max.set(pair, Math.max(max.get(pair) ?? 0, used));
  });
  await queues.synced;
  return {
    seen: () => queues.list().map((queue) => ({ ...queue, maxUsed: maxima.get(queue.name) ?? new Map() })),
    [Symbol.asyncDispose]: () => queues[Symbol.asyncDispose](),
  };
}

/** Creates the queues, and resolves when the ledger follows all of them. */
export async function startQueues(
  calls: KubeCalls,
  observer: QueueObserver,
  teams: readonly TeamQueue[],
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<void> {
  const manifests = buildQueues(teams);
  for (const manifest of manifests) await calls.create(QUEUES, manifest);
  const end = performance.now() + timeoutMs;
  const followed = (): number =>
    observer.seen().filter(({ reason }) => reason === "ADMITTING" || reason === "NOT_A_LEAF").length;
  while (followed() < manifests.length) {
    if (performance.now() > end) throw new Error(`the ledger does not follow all queues after ${timeoutMs} ms`);
    await sleep(POLL_MS, undefined, { signal });
  }
}

function keep({ metadata, status }: QueueObject): Kept {
  const used = (status?.pools ?? []).flatMap(({ pool, resources = [] }) =>
    resources.map((resource): [string, number] => [
      `${pool} ${resource.name}`,
      parseAmount(resource.name, resource.used ?? "0") ?? 0,
    ]),
  );
  return {
    name: metadata?.name ?? "",
    reason: status?.reason ?? "",
    pending: status?.pending ?? 0,
    admitted: status?.admitted ?? 0,
    used: new Map(used.filter(([, amount]) => amount > 0)),
  };
}
