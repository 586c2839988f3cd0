import type { V1ObjectMeta, V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { selectSize } from "@muster/testkit";

export const PODS = selectSize(2000, 100);
export const PODS_PER_SESSION = 20;

/** Equal to the number of Muster's pods; every second change concerns a foreign pod. */
export const FOREIGN_PODS = PODS;
export const NODES = 500;

/** `changes` of Muster's pods, and an equal number of changes of foreign pods. */
export type Order = { readonly perSecond: number; readonly changes: number };

/** The same clock in every process of the machine. */
export function readMonotonicNs(): number {
  return Number(process.hrtime.bigint());
}

/** A pod of some 4 KiB that carries its time in the place of an address, where all sides can read it. */
export function benchPod(at: number, stamp: string): V1Pod {
  const component = `client-${at % PODS_PER_SESSION}`;
  const session = `session-${Math.floor(at / PODS_PER_SESSION)}`;
  const own = { [labels.ownerKind]: "session", [labels.owner]: session, [labels.component]: component };
  return podOf({ name: `${session}-${component}`, namespace: "default", labels: own }, nodeName(at), stamp);
}

/** A pod of the same size that is not Muster's. It carries no time: no state of it is published. */
export function makeForeignPod(at: number): V1Pod {
  const name = `web-${at % 50}-${(at * 7919).toString(36).padStart(10, "0")}`;
  return podOf({ name, namespace: `team-${at % 20}`, labels: { app: `web-${at % 50}` } }, nodeName(at), "");
}

export function nodeName(at: number): string {
  return `node-${at % NODES}`;
}

function podOf(metadata: V1ObjectMeta & { readonly name: string }, node: string, stamp: string): V1Pod {
  const { name } = metadata;
  const container = {
    name: "main",
    image: "registry.example.com/benchmarks/client:2026.01.01",
    env: Array.from({ length: 40 }, (_, index) => ({ name: `SETTING_${index}`, value: `value-${index}-of-${name}` })),
    readinessProbe: { tcpSocket: { port: 10_000 } },
    resources: { requests: { cpu: "250m", memory: "512Mi" }, limits: { memory: "1Gi" } },
  };
  const state = { name: "main", image: container.image, imageID: "", ready: true, restartCount: 0 };
  return {
    metadata,
    spec: { restartPolicy: "Never", nodeName: node, containers: [container] },
    status: { phase: "Running", podIP: stamp, containerStatuses: [{ ...state, state: { running: {} } }] },
  };
}

export type Latencies = {
  add(stamp: string): void;
  readonly count: number;
  take(): { p50: number; p99: number; count: number };
};

/** Milliseconds from the change to now, of every change that carries its time. */
export function makeLatencies(): Latencies {
  let all: number[] = [];
  return {
    add: (stamp) => {
      if (stamp !== "") all.push((readMonotonicNs() - Number(stamp)) / 1e6);
    },
    get count() {
      return all.length;
    },
    take: () => {
      const sorted = all.sort((one, two) => one - two);
      all = [];
      const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
      return { p50: at(0.5), p99: at(0.99), count: sorted.length };
    },
  };
}
