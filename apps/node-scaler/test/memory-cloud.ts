import { throwFault } from "@muster/faults";
import type { BootRequest, Instance, NodeProvider, BootOutcome } from "../src/providers/provider.ts";

/** The failures of the next calls of a cloud. */
export type CloudFaults = {
  /** Starts that report a shortage. */
  short?: { readonly times: number; readonly instanceTypes?: readonly string[] };
  /** Starts that fail without an effect. */
  startFails?: number;
  /** Starts that take effect, and then fail. */
  answerLost?: number;
  /** Stops that are refused. */
  stopFails?: number;
  /** Stops that are accepted, and have no effect. */
  stopForgotten?: number;
  /** Calls of any kind that are refused with a retry hint. */
  rateLimited?: { readonly times: number; readonly retryAfterMs: number };
  listFails?: number;
  /** The errors in its pools. */
  wrong?: readonly string[];
  /** Lists that are empty, whatever exists. */
  listsNothing?: number;
};

export type CloudInstance = {
  readonly boot: BootRequest;
  readonly instanceId: string;
  readonly startedAtMs: number;
  joins: boolean;
  stopping: boolean;
  lostAtMs: number | undefined;
  failure: string | undefined;
};

/** A cloud in memory. A stop ends an instance immediately, unless a fault prevents it. */
export type MemoryCloud = {
  readonly provider: NodeProvider;
  readonly instances: Map<string, CloudInstance>;
  /** Counts the starts of each node, whatever their outcome. */
  readonly starts: Map<string, number>;
  readonly faults: CloudFaults;
  /** Called with each instance before it ends. */
  onStop: (instance: CloudInstance) => void;
};

export function makeMemoryCloud({ name, now }: { readonly name: string; readonly now: () => number }): MemoryCloud {
  const instances = new Map<string, CloudInstance>();
  const starts = new Map<string, number>();
  const faults: CloudFaults = {};
  let ids = 0;

  const limit = (): void => {
    const limited = faults.rateLimited;
    if (limited === undefined || limited.times === 0) return;
    faults.rateLimited = { ...limited, times: limited.times - 1 };
    throwFault({ code: "limit_exceeded", what: `calls of ${name}`, limit: 1, retryAfterMs: limited.retryAfterMs });
  };
  const fail = (doing: string): never => throwFault({ code: "unavailable", dependency: doing, retryAfterMs: 0 });
  const spend = (what: Exclude<keyof CloudFaults, "short" | "rateLimited" | "wrong">): boolean => {
    const left = faults[what] ?? 0;
    if (left > 0) faults[what] = left - 1;
    return left > 0;
  };
  const make = (boot: BootRequest): string => {
    const existing = [...instances.values()].find((instance) => instance.boot.nodeName === boot.nodeName);
    if (existing !== undefined) return existing.instanceId;
    ids += 1;
    const instanceId = `i-${ids}`;
    const startedAtMs = now();
    instances.set(instanceId, {
      boot,
      instanceId,
      startedAtMs,
      joins: true,
      stopping: false,
      lostAtMs: undefined,
      failure: undefined,
    });
    return instanceId;
  };
  const cloud: MemoryCloud = {
    instances,
    starts,
    faults,
    onStop: () => undefined,
    provider: {
      name,
      fixedSizeVolumes: false,
      start: async (boot): Promise<BootOutcome> => {
        await Promise.resolve();
        starts.set(boot.nodeName, (starts.get(boot.nodeName) ?? 0) + 1);
        limit();
        if (spend("startFails")) fail(name);
        const { short } = faults;
        if (short !== undefined && short.times > 0 && (short.instanceTypes?.includes(boot.instanceType) ?? true)) {
          faults.short = { ...short, times: short.times - 1 };
          return { kind: "no-capacity", zone: undefined, subnet: undefined, message: "none left" };
        }
        const instanceId = make(boot);
        if (spend("answerLost")) fail(name);
        return { kind: "started", instanceId, zone: boot.zone };
      },
      stop: async ({ instanceId }) => {
        await Promise.resolve();
        limit();
        if (spend("stopFails")) throwFault({ code: "not_found", kind: "instance", id: instanceId });
        const instance = instances.get(instanceId);
        if (instance === undefined || spend("stopForgotten")) return;
        cloud.onStop(instance);
        instances.delete(instanceId);
      },
      list: async () => {
        await Promise.resolve();
        limit();
        if (spend("listFails")) fail(name);
        if (spend("listsNothing")) return [];
        return [...instances.values()].map(toInstance);
      },
      findImage: () => Promise.resolve(""),
      checkPool: async () => {
        await Promise.resolve();
        limit();
        return faults.wrong ?? [];
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
  };
  return cloud;
}

function toInstance({ boot, instanceId, stopping, lostAtMs, failure }: CloudInstance): Instance {
  return {
    instanceId,
    nodeName: boot.nodeName,
    state: stopping ? "stopping" : "running",
    zone: boot.zone,
    addresses: [],
    kubernetesNode: undefined,
    lostAtMs,
    failure,
  };
}
