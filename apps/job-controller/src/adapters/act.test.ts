import { ApiException } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { act, type ActDeps, type Acting } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { JobRow } from "./read-job.ts";

const RESOURCE = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const STEP = {
  do: "create-pods",
  pods: [{ type: "worker", index: 0, node: "a" }],
  attempt: 0,
  because: "missing",
} as const;

/** Whether a pod was asked for, where the API server has this of the job that the view still shows. */
async function createdWhere(there: object | undefined): Promise<boolean> {
  const made: string[] = [];
  const calls = {
    get: () =>
      there === undefined ? Promise.reject(new ApiException(404, "not found", {}, {})) : Promise.resolve(there),
  };
  // Nothing else of the runtime is reached before the answer.
  const controller = {
    get podControl(): never {
      made.push("pod");
      throw new Error("a pod is made");
    },
  };
  const acting = {
    runtime: { resource: RESOURCE, kind: {}, controller } as unknown as KindRuntime,
    job: { metadata: { name: "train", uid: "u-1" }, spec: { replicas: [] }, traceparent: "" } as unknown as JobRow,
    seen: { snapshot: {} } as Acting["seen"],
    signal: new AbortController().signal,
    holds: () => true,
  };
  const error: unknown = await act({ calls } as unknown as ActDeps, acting as unknown as Acting, STEP).catch(
    (caught: unknown) => caught,
  );
  expect(error).toMatchObject({ fault: { code: "unavailable", dependency: "current view of job train" } });
  return made.length > 0;
}

it.each([
  ["is gone", undefined],
  ["is another one by now", { metadata: { name: "train", uid: "u-2" } }],
  ["is being deleted", { metadata: { name: "train", uid: "u-1", deletionTimestamp: "2026-01-01T00:00:00Z" } }],
])("makes no pods of a job that %s, though the view still shows it", async (_title, there) => {
  expect(await createdWhere(there)).toBe(false);
});
