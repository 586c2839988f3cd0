import { readFileSync } from "node:fs";
import { arch, hostname, platform, release } from "node:os";
import { makeReconcileLoop } from "../reconcile-loop.ts";
import type { NodeFacts } from "./build-node.ts";
import type { NodeApi } from "./node-api.ts";

/** Timeout of the last report at a stop, because the API server may be gone as well. */
const FAREWELL_TIMEOUT_MS = 3_000;
const LEASE_EVERY_MS = 10_000;
const STATUS_EVERY_MS = 60_000;

/** Keeps a node registered and alive. Disposing reports the node as not ready. */
export type NodeHeartbeat = AsyncDisposable & {
  /** Resolves once the API server shows the node as ready. */
  readonly ready: Promise<void>;
  /** After this call, disposing does not report the node as not ready. */
  readonly fallSilent: () => void;
};

/** Registers the node, then renews its lease every 10 seconds and reports its status every minute. A node that is deleted later stays deleted. */
export function startHeartbeat(
  api: NodeApi,
  facts: NodeFacts,
  onError: (error: unknown, doing: string) => void,
): NodeHeartbeat {
  const registered = Promise.withResolvers<undefined>();
  let isRegistered = false;
  let isSilent = false;
  let reportedAtMs = -Infinity;

  const loop = makeReconcileLoop({
    pass: async () => {
      if (isRegistered) await api.renewLease(facts.name);
      else await api.register(facts);
      const isDue = isRegistered && performance.now() - reportedAtMs >= STATUS_EVERY_MS;
      if (isDue || !(await api.isReady(facts.name))) await api.report(facts, { ready: true });
      if (isDue || !isRegistered) reportedAtMs = performance.now();
      isRegistered = true;
      registered.resolve(undefined);
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
      await api
        .report(facts, { ready: false }, { timeoutMs: FAREWELL_TIMEOUT_MS })
        .catch((error: unknown) => onError(error, `reporting node ${facts.name} as not ready`));
    },
  };
}

/** Reads the machine's properties for the node's status. */
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

function readId(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
