import { expect, it } from "vitest";
import type { JobObject } from "../domain/ownership.ts";
import { recheckDeletionTimestamp } from "../members/claim-members.ts";
import { act, type ActDeps, type Acting } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobRow } from "./read-job.ts";

const METADATA = { namespace: "default", name: "train", uid: "u-1" };
const STEP = {
  kind: "create-pods",
  pods: [{ type: "worker", index: 0, node: "a" }],
  attempt: 0,
  because: "missing",
} as const;

/** Whether pods are created where the API server returns this for the job that the view still shows. */
async function isCreatedWhere(found: JobObject | undefined): Promise<boolean> {
  const created: string[] = [];
  const read = () => (found === undefined ? Promise.reject(new Error("not found")) : Promise.resolve(found));
  // Nothing else of the runtime is reached before the answer.
  const controller = {
    recheckDeletionTimestamp: (job: JobObject) => recheckDeletionTimestamp(job, read),
    createPods(): never {
      created.push("pod");
      throw new Error("a pod is created");
    },
  };
  const acting = {
    runtime: { kind: {}, controller } as unknown as KindRuntime,
    job: { metadata: METADATA, spec: { replicas: [] }, traceparent: "" } as unknown as JobRow,
    seen: { snapshot: {} } as Acting["seen"],
    signal: new AbortController().signal,
    isHeld: () => true,
  };
  await expect(act({} as ActDeps, acting, STEP)).rejects.toThrow(/train/);
  return created.length > 0;
}

it.each([
  ["is gone", undefined],
  ["is another one by now", { metadata: { ...METADATA, uid: "u-2" } }],
  ["is being deleted", { metadata: { ...METADATA, deletionTimestamp: "2026-01-01T00:00:00Z" } }],
])("creates no pods of a job that %s, though the view still shows it", async (_title, found) => {
  expect(await isCreatedWhere(found)).toBe(false);
});
