import { expect, it } from "vitest";
import { KubeError } from "@muster/kube";
import type { JobObject } from "../domain/ownership.ts";
import type { JobStep } from "../domain/plan-steps.ts";
import { recheckVersion } from "../members/claim-members.ts";
import { executeStep, type ActDeps, type ActContext } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobRow } from "./read-job.ts";

const METADATA = { namespace: "default", name: "train", uid: "u-1", resourceVersion: "5" };
const CURRENT: JobObject = { metadata: METADATA };
const STALE = [["default/train", "5"]];
const CREATE: JobStep = {
  kind: "create-pods",
  pods: [{ type: "worker", index: 0, node: "a" }],
  attempt: 0,
  because: "missing",
};
const RESERVE: JobStep = {
  kind: "reserve",
  unit: { id: "job-u-1", needs: [], because: "gang" },
  priority: 0,
  because: "gang",
};

/**
 * Returns whether the step is carried out, and which versions are recorded as stale. `found` is the API server's answer for the job that the view shows.
 */
async function actWhere(
  found: JobObject | undefined,
  step: JobStep,
): Promise<{ created: boolean; stale: readonly unknown[] }> {
  const created: string[] = [];
  const stale: unknown[] = [];
  const read = () => (found === undefined ? Promise.reject(new KubeError("GET", 404, {})) : Promise.resolve(found));
  // The test reaches no other part of the runtime before the answer.
  const controller = {
    recheckVersion: (job: JobObject, version: string | undefined) => recheckVersion(job, version, read),
    createPods(): never {
      created.push("pod");
      throw new Error("a pod is created");
    },
  };
  const acting = {
    runtime: { kind: {}, controller, recordStale: (...of: unknown[]) => stale.push(of) } as unknown as KindRuntime,
    job: { metadata: METADATA, spec: { replicas: [] }, traceparent: "" } as unknown as JobRow,
    seen: { snapshot: {} } as ActContext["seen"],
    version: METADATA.resourceVersion,
    signal: new AbortController().signal,
    isHeld: () => true,
    checks: new WeakMap(),
  };
  const machines = { reserve: () => Promise.resolve(void created.push("machines")) };
  const acted = executeStep({ machines } as unknown as ActDeps, acting, step);
  if (found === CURRENT) await acted;
  else await expect(acted).rejects.toThrow(/train/);
  return { created: created.length > 0, stale };
}

const OUTDATED: readonly (readonly [string, JobObject | undefined])[] = [
  ["is gone", undefined],
  ["was replaced by another of its name", { metadata: { ...METADATA, uid: "u-2" } }],
  ["has changed since", { metadata: { ...METADATA, resourceVersion: "6" } }],
  ["is being deleted", { metadata: { ...METADATA, deletionTimestamp: "2026-01-01T00:00:00Z" } }],
];

it.each(OUTDATED)("creates no pods of a job that %s, though the view still shows the job", async (_title, found) => {
  expect(await actWhere(found, CREATE)).toEqual({ created: false, stale: STALE });
});

it.each(OUTDATED)(
  "reserves no machines for a job that %s, though the view still shows the job",
  async (_title, found) => {
    expect(await actWhere(found, RESERVE)).toEqual({ created: false, stale: STALE });
  },
);

it("reserves machines for a job that matches the view", async () => {
  expect(await actWhere(CURRENT, RESERVE)).toEqual({ created: true, stale: [] });
});

it("reads the job once per round for all its reservations, and again before pods are created", async () => {
  const calls: string[] = [];
  const controller = { recheckVersion: () => Promise.resolve(void calls.push("read")) };
  const base = {
    runtime: { kind: {}, controller } as unknown as KindRuntime,
    job: { metadata: METADATA, spec: { replicas: [] }, traceparent: "" } as unknown as JobRow,
    version: METADATA.resourceVersion,
    signal: new AbortController().signal,
    isHeld: () => true,
    checks: new WeakMap(),
  };
  const machines = { reserve: () => Promise.resolve(void calls.push("reserve")) };
  const deps = { machines, policy: {} } as unknown as ActDeps;
  const first = { ...base, seen: { snapshot: { spec: {} } } as ActContext["seen"] };
  const second = { ...base, seen: { snapshot: { spec: {} } } as ActContext["seen"] };
  const nothing: JobStep = { ...CREATE, pods: [] };
  for (const step of [RESERVE, RESERVE, nothing, RESERVE]) await executeStep(deps, first, step);
  await executeStep(deps, second, RESERVE);
  expect(calls).toEqual(["read", "reserve", "reserve", "read", "reserve", "read", "reserve"]);
});
