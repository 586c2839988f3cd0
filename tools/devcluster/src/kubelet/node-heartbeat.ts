import { readFileSync } from "node:fs";
import { arch, hostname, platform, release } from "node:os";
import { CoordinationV1Api, CoreV1Api, type KubeConfig, V1MicroTime, type V1Node } from "@kubernetes/client-node";
import { kubeClient, kubeFault, unlessMissing } from "@muster/kube";
import { reconcileLoop } from "../reconcile-loop.ts";
import { buildNode, buildNodeStatus, nodeDiffers, type NodeFacts } from "./build-node.ts";

const CALL_TIMEOUT_MS = 10_000;
/** As long as a stop waits for an API server that is perhaps gone as well. */
const FAREWELL_TIMEOUT_MS = 3_000;
const LEASE_EVERY_MS = 10_000;
const STATUS_EVERY_MS = 60_000;
const LEASE_SECONDS = 40;
/** Of one write that others come before. */
const ATTEMPTS_MAX = 5;
const LEASE_NAMESPACE = "kube-node-lease";

/** Keeps a node known and alive. Disposing tells the API server that it is not ready any more. */
export type NodeHeartbeat = AsyncDisposable & {
  /** Resolves when the API server first knows the node as ready. */
  readonly ready: Promise<void>;
  /** Disposing tells nobody any more. */
  readonly fallSilent: () => void;
};

/** Registers the node and goes on: a lease every 10 seconds where the namespace for leases exists, the status every minute. A node that somebody deletes later stays deleted. */
export function startHeartbeat(
  kubeconfig: KubeConfig,
  facts: NodeFacts,
  options: { readonly now: () => number; readonly onError: (error: unknown, doing: string) => void },
): NodeHeartbeat {
  const { now, onError } = options;
  const core = kubeClient(kubeconfig, CoreV1Api, { timeoutMs: CALL_TIMEOUT_MS });
  const leases = kubeClient(kubeconfig, CoordinationV1Api, { timeoutMs: CALL_TIMEOUT_MS });
  const registered = Promise.withResolvers<undefined>();
  let isRegistered = false;
  let isSilent = false;
  let reportedAtMs = -Infinity;

  const loop = reconcileLoop({
    pass: async () => {
      if (!isRegistered) await register(core, facts);
      const isDue = performance.now() - reportedAtMs >= STATUS_EVERY_MS;
      if (isDue || !(await isCalledReady(core, facts.name))) {
        await saveStatus(core, facts, { ready: true, nowMs: now() });
        reportedAtMs = performance.now();
      }
      isRegistered = true;
      registered.resolve(undefined);
      await renewLease(leases, facts.name, now());
    },
    onError: (error) => onError(error, `reporting node ${facts.name}`),
  });
  loop.poke();
  const timer = setInterval(loop.poke, LEASE_EVERY_MS);
  return {
    ready: registered.promise,
    fallSilent: () => {
      isSilent = true;
    },
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await loop[Symbol.asyncDispose]();
      if (!isRegistered || isSilent) return;
      const farewell = kubeClient(kubeconfig, CoreV1Api, { timeoutMs: FAREWELL_TIMEOUT_MS });
      await saveStatus(farewell, facts, { ready: false, nowMs: now() }).catch((error: unknown) =>
        onError(error, `taking leave of node ${facts.name}`),
      );
    },
  };
}

/** What the node tells of the machine it runs on. */
export function readSystem(): NodeFacts["system"] {
  return {
    arch: arch(),
    platform: platform(),
    kernel: release(),
    hostname: hostname(),
    bootId: readId("/proc/sys/kernel/random/boot_id"),
    machineId: readId("/etc/machine-id"),
    nodeVersion: process.version,
  };
}

async function register(core: CoreV1Api, facts: NodeFacts): Promise<void> {
  const existing = await readNode(core, facts.name);
  if (existing === undefined) {
    await core.createNode({ body: buildNode(facts, undefined) });
  }
  // Admission taints a node at its creation, so that what was just created may need a change as well.
  await unlessOvertaken(async () => {
    const node = await core.readNode({ name: facts.name });
    if (nodeDiffers(facts, node)) await core.replaceNode({ name: facts.name, body: buildNode(facts, node) });
  });
}

async function saveStatus(
  core: CoreV1Api,
  facts: NodeFacts,
  state: { readonly ready: boolean; readonly nowMs: number },
): Promise<void> {
  await unlessOvertaken(async () => {
    const node = await readNode(core, facts.name);
    if (node === undefined) return;
    await core.replaceNodeStatus({ name: facts.name, body: { ...node, status: buildNodeStatus(facts, node, state) } });
  });
}

/** As a kubelet does: others taint and label the node at the same time, so that it is read and written again. */
async function unlessOvertaken(write: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await write();
      return;
    } catch (error) {
      if (kubeFault(error)?.code !== "conflict" || attempt >= ATTEMPTS_MAX) throw error;
    }
  }
}

/** False when somebody who missed the heartbeats has called the node unknown. */
async function isCalledReady(core: CoreV1Api, name: string): Promise<boolean> {
  const node = await readNode(core, name);
  return node?.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

async function readNode(core: CoreV1Api, name: string): Promise<V1Node | undefined> {
  return unlessMissing(core.readNode({ name }));
}

async function renewLease(leases: CoordinationV1Api, name: string, nowMs: number): Promise<void> {
  const spec = {
    holderIdentity: name,
    leaseDurationSeconds: LEASE_SECONDS,
    renewTime: new V1MicroTime(nowMs),
  };
  const namespace = LEASE_NAMESPACE;
  const existing = await unlessMissing(leases.readNamespacedLease({ name, namespace }));
  if (existing !== undefined) {
    await leases.replaceNamespacedLease({ name, namespace, body: { ...existing, spec } });
    return;
  }
  // Where the namespace is missing too, nobody looks at leases.
  await unlessMissing(leases.createNamespacedLease({ namespace, body: { metadata: { name, namespace }, spec } }));
}

function readId(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
