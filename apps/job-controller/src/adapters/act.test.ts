import { expect, it } from "vitest";
import { KubeError } from "@muster/kube";
import type { JobObject } from "../domain/ownership.ts";
import { recheckVersion } from "../members/claim-members.ts";
import { act, type ActDeps, type Acting } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobRow } from "./read-job.ts";

const METADATA = { namespace: "default", name: "train", uid: "u-1", resourceVersion: "5" };
const STALE = [["default/train", "5"]];
const STEP = {
  kind: "create-pods",
  pods: [{ type: "worker", index: 0, node: "a" }],
  attempt: 0,
  because: "missing",
} as const;

/** Whether pods are created, and which versions are recorded as stale, where the API server returns this for the job that the view still shows. */
async function createWhere(found: JobObject | undefined): Promise<{ created: boolean; stale: readonly unknown[] }> {
  const created: string[] = [];
  const stale: unknown[] = [];
  const read = () => (found === undefined ? Promise.reject(new KubeError("GET", 404, {})) : Promise.resolve(found));
  // Nothing else of the runtime is reached before the answer.
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
    seen: { snapshot: {} } as Acting["seen"],
    version: METADATA.resourceVersion,
    signal: new AbortController().signal,
    isHeld: () => true,
  };
  await expect(act({} as ActDeps, acting, STEP)).rejects.toThrow(/train/);
  return { created: created.length > 0, stale };
}

it.each([
  ["is gone", undefined],
  ["is another one by now", { metadata: { ...METADATA, uid: "u-2" } }],
  ["has changed since, as by its end,", { metadata: { ...METADATA, resourceVersion: "6" } }],
  ["is being deleted", { metadata: { ...METADATA, deletionTimestamp: "2026-01-01T00:00:00Z" } }],
])("creates no pods of a job that %s, though the view still shows it", async (_title, found) => {
  expect(await createWhere(found)).toEqual({ created: false, stale: STALE });
});
