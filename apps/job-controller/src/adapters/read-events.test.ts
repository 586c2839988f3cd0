import { V1MicroTime, type CoreV1Event } from "@kubernetes/client-node";
import type { CallOptions, KubeObject, KubeResource, ListPage } from "@muster/kube";
import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { readEvents } from "./read-events.ts";
import { readJob } from "./read-job.ts";

function jobOf(replicas: number) {
  const template = { spec: { containers: [{ name: "main", image: "image" }] } };
  const metadata = { name: "train", namespace: "default", uid: "uid-of-train" };
  return readJob({ metadata, spec: { replicaSpecs: { worker: { replicas, template } } } }, JOB_KIND, DEFAULTS);
}

function event(kind: string, name: string, atMs: number): CoreV1Event {
  const involvedObject = { kind, name, uid: `uid-of-${name}` };
  return { metadata: {}, involvedObject, lastTimestamp: new Date(atMs), reason: `${atMs}` };
}

/** Reads the events of a job with this many members if these events exist. */
async function read(replicas: number, events: readonly CoreV1Event[]) {
  const asked: string[] = [];
  const list = <Object extends KubeObject>(
    _: KubeResource,
    { query = {} }: CallOptions = {},
  ): Promise<ListPage<Object>> => {
    const selector = String(query["fieldSelector"]);
    asked.push(`${selector} ${String(query["continue"] ?? "")}`.trimEnd());
    const wanted = new Map(
      selector.split(",").map((each) => each.replace("involvedObject.", "").split("=") as [string, string]),
    );
    const all = events.filter(({ involvedObject }) =>
      [...wanted].every(([key, value]) => new Map(Object.entries(involvedObject)).get(key) === value),
    );
    const [from, limit] = [Number(query["continue"] ?? 0), Number(query["limit"])];
    const next = from + limit;
    // The items in a test have the type that the caller names.
    const items = all.slice(from, next) as KubeObject[] as Object[];
    return Promise.resolve({ items, resourceVersion: "1", continue: next < all.length ? `${next}` : undefined });
  };
  const found = await readEvents({ list }, jobOf(replicas), new AbortController().signal);
  return { asked, found, events: found.map(({ object, reason }) => `${object ?? ""} ${reason ?? ""}`) };
}

const some = [
  event("Pod", "train-worker-1", 3),
  event("Job", "train", 1),
  event("Pod", "train-2-worker-0", 2),
  event("Pod", "train-worker-0", 2),
];

it("sorts events within one second by the order of their recording", async () => {
  const recorded = (name: string, resourceVersion: string): CoreV1Event => ({
    ...event("Pod", name, 1000),
    metadata: { resourceVersion },
    reason: resourceVersion,
  });
  const { events } = await read(2, [
    recorded("train-worker-0", "100"),
    recorded("train-worker-0", "9"),
    recorded("train-worker-1", "99"),
  ]);
  expect(events).toEqual(["Pod/train-worker-0 9", "Pod/train-worker-1 99", "Pod/train-worker-0 100"]);
});

it("lists the events of a small job's members by their names", async () => {
  const { asked, events } = await read(2, some);
  expect(events).toEqual(["Job/train 1", "Pod/train-worker-0 2", "Pod/train-worker-1 3"]);
  expect(asked).toEqual([
    "involvedObject.uid=uid-of-train",
    "involvedObject.kind=Pod,involvedObject.name=train-worker-0",
    "involvedObject.kind=Pod,involvedObject.name=train-worker-1",
  ]);
});

it("lists the events of all pods in pages for a large job, and keeps its own", async () => {
  const others = Array.from({ length: 600 }, (_, index) => event("Pod", `other-worker-${index}`, 5));
  const { asked, events } = await read(33, [...others, ...some]);
  expect(events).toEqual(["Job/train 1", "Pod/train-worker-0 2", "Pod/train-worker-1 3"]);
  expect(asked).toEqual(["involvedObject.uid=uid-of-train", "involvedObject.kind=Pod", "involvedObject.kind=Pod 500"]);
});

it("keeps the newest thousand events", async () => {
  const many = Array.from({ length: 2500 }, (_, index) => event("Job", "train", 2500 - index));
  const { events } = await read(1, many);
  expect([events.length, events[0], events.at(-1)]).toEqual([1000, "Job/train 1501", "Job/train 2500"]);
});

it("lists a repeated event at its first and its last time, so that the lives of a preempted job have an order", async () => {
  const at = (reason: string, firstMs: number, more: Partial<CoreV1Event> = {}): CoreV1Event => ({
    ...event("Job", "train", firstMs),
    firstTimestamp: new Date(firstMs),
    reason,
    ...more,
  });
  const { involvedObject } = event("Job", "train", 0);
  const again = (lastMs: number, count: number) => ({ lastTimestamp: new Date(lastMs), count });
  const series = { count: 3, lastObservedTime: new V1MicroTime(7000) };
  const { found } = await read(1, [
    at("JobRunning", 2000, again(6000, 2)),
    at("Preempted", 4000),
    { metadata: {}, involvedObject, reason: "FailedScheduling", eventTime: new V1MicroTime(3000), series },
    at("Unknown", 8000, { count: 2 }),
  ]);
  expect(found.map(({ reason, firstAtMs, atMs, count }) => [reason, firstAtMs, atMs, count])).toEqual([
    ["JobRunning", 2000, 2000, 1],
    ["FailedScheduling", 3000, 3000, 1],
    ["Preempted", 4000, 4000, 1],
    ["JobRunning", 2000, 6000, 2],
    ["FailedScheduling", 3000, 7000, 3],
    ["Unknown", 8000, 8000, 2],
  ]);
});
