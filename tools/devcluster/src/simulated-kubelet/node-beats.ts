import { setTimeout as sleep } from "node:timers/promises";
import type { V1Node } from "@kubernetes/client-node";
import type { Informer } from "@muster/kube";
import type { SimulatedNode } from "./simulated-node.ts";
import { isReady, type NodeApi } from "../kubelet/node-api.ts";

export type BeatsOptions = {
  readonly nodes: readonly SimulatedNode[];
  readonly api: NodeApi;
  /** The cached nodes of the API server. */
  readonly seen: Informer<V1Node>;
  readonly leaseEveryMs: number;
  readonly onError: (error: unknown, doing: string) => void;
};

/** Keeps many nodes registered and alive. Disposal reports live nodes as not ready. */
export type NodeBeats = AsyncDisposable & {
  readonly register: (node: SimulatedNode) => Promise<void>;
  readonly report: (node: SimulatedNode) => Promise<void>;
  readonly remove: (node: SimulatedNode) => Promise<void>;
  /** Registers a node, and starts its heartbeats. */
  readonly adopt: (node: SimulatedNode) => Promise<void>;
  /** Stops the heartbeats of a node; its Node object stays unchanged. */
  readonly drop: (node: SimulatedNode) => void;
  /** Reports the node as not ready. */
  readonly takeLeave: (node: SimulatedNode) => Promise<void>;
};

/** As the real kubelet: an unchanged status is reported every five minutes. */
const STATUS_EVERY_MS = 300_000;
const TICK_MS = 250;
/** Maximum number of heartbeats in one tick; later nodes follow in the next tick. */
const BEATS_PER_TICK = 200;
const REGISTER_ATTEMPTS = 5;
const RETRY_MS = 500;

type Times = { leaseAtMs: number; statusAtMs: number; isBusy: boolean };

/** Registers all nodes, then renews their leases, spread over the interval. Resolves when all are ready. */
export async function startBeats(options: BeatsOptions): Promise<NodeBeats> {
  const { api, seen, leaseEveryMs, onError } = options;
  const times = new Map<string, Times>();
  const removed = new Set<string>();
  await Promise.all(options.nodes.map((node) => registered(node, api)));
  const begin = ({ facts }: SimulatedNode, spread: number): void => {
    times.set(facts.name, {
      leaseAtMs: performance.now() + leaseEveryMs * spread,
      statusAtMs: performance.now() + STATUS_EVERY_MS * (1 + spread),
      isBusy: false,
    });
  };
  for (const [index, node] of options.nodes.entries()) begin(node, index / options.nodes.length);
  const byName = new Map(options.nodes.map((node) => [node.facts.name, node]));

  const beat = (node: SimulatedNode, own: Times): Promise<void> => beatOnce(node, own, options);
  const timer = setInterval(() => {
    const nowMs = performance.now();
    const due = [...byName.values()].filter((node) => {
      const own = times.get(node.facts.name);
      return node.state() === "alive" && own?.isBusy === false && nowMs >= Math.min(own.leaseAtMs, own.statusAtMs);
    });
    for (const node of due.slice(0, BEATS_PER_TICK)) {
      const own = times.get(node.facts.name);
      if (own !== undefined) void beat(node, own);
    }
  }, TICK_MS);
  // The node lifecycle marked the node as unknown after missed heartbeats, so the node reports its status.
  const stopSeeing = seen.onChange(({ key, after }) => {
    const own = times.get(key);
    if (own !== undefined && after !== undefined && !isReady(after) && byName.get(key)?.state() === "alive")
      own.statusAtMs = 0;
  });

  const takeLeave = (node: SimulatedNode): Promise<void> =>
    api
      .report(node.facts, { ready: false })
      .catch((error: unknown) => onError(error, `taking leave of node ${node.facts.name}`));

  return {
    takeLeave,
    adopt: async (node) => {
      byName.set(node.facts.name, node);
      await registered(node, api);
      begin(node, 1);
    },
    drop: ({ facts }) => {
      byName.delete(facts.name);
      times.delete(facts.name);
    },
    register: async (node) => {
      removed.delete(node.facts.name);
      await registered(node, api);
    },
    report: async (node) => {
      if (node.state() !== "alive") return;
      await api.renewLease(node.facts.name);
      await api.report(node.facts, { ready: true });
    },
    remove: async (node) => {
      removed.add(node.facts.name);
      await api.remove(node.facts.name);
    },
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      stopSeeing();
      const living = [...byName.values()].filter((node) => node.state() === "alive" && !removed.has(node.facts.name));
      await Promise.all(living.map(takeLeave));
    },
  };
}

async function beatOnce(
  node: SimulatedNode,
  own: Times,
  { api, leaseEveryMs, onError }: Pick<BeatsOptions, "api" | "leaseEveryMs" | "onError">,
): Promise<void> {
  const { name } = node.facts;
  const nowMs = performance.now();
  own.isBusy = true;
  try {
    if (nowMs >= own.leaseAtMs) {
      await api.renewLease(name);
      own.leaseAtMs = nowMs + leaseEveryMs;
    }
    if (nowMs >= own.statusAtMs) {
      await api.report(node.facts, { ready: true });
      own.statusAtMs = nowMs + STATUS_EVERY_MS;
    }
  } catch (error) {
    onError(error, `reporting node ${name}`);
    own.leaseAtMs = Math.max(own.leaseAtMs, nowMs + RETRY_MS);
  } finally {
    own.isBusy = false;
  }
}

async function registered(node: SimulatedNode, api: NodeApi): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await api.register(node.facts);
      return;
    } catch (error) {
      if (attempt >= REGISTER_ATTEMPTS) throw error;
      await sleep(RETRY_MS * attempt);
    }
  }
}
