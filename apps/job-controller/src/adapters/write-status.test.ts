import type { KubeObject } from "@muster/kube";
import { annotations } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { JOB_KIND } from "../domain/kind-job.ts";
import { NEW_STATUS, type JobStatus } from "../domain/job-status.ts";
import { DEFAULTS, jobManifest } from "../../test/manifests.ts";
import { readJob, type JobResource, type JobRow } from "./read-job.ts";
import type { StatusJson } from "./status-json.ts";
import { writeStatus, type StatusDeps } from "./write-status.ts";

const RESOURCE = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const REMEMBERING: JobStatus = {
  ...NEW_STATUS,
  attempt: 2,
  replicas: [
    {
      type: "worker",
      active: 0,
      ready: 0,
      succeeded: 1,
      failed: 0,
      restarts: 4,
      completedIndexes: [1],
      counted: [],
      uncounted: [],
    },
  ],
};

type Patch = { readonly status?: StatusJson; readonly metadata?: { readonly annotations?: Record<string, string> } };

/** An API server that has one job, and whose definition keeps of a status what `keep` leaves. */
function serverOf(keep: (status: StatusJson) => StatusJson) {
  const manifest = jobManifest("train");
  let resource = { ...manifest, metadata: { name: "train", namespace: "default", uid: "u" } } as JobResource;
  const dropped: string[] = [];
  const deps: StatusDeps = {
    onDropped: () => dropped.push("dropped"),
    calls: {
      get: () => Promise.reject(new Error("an unexpected read")),
      patch: (_resource, _name, { body }) => {
        const { status, metadata } = body as Patch;
        const { annotations: more } = metadata ?? {};
        resource = {
          ...resource,
          ...(status !== undefined && { status: keep(status) }),
          metadata: { ...resource.metadata, ...(more !== undefined && { annotations: more }) },
        };
        return Promise.resolve(resource as never);
      },
    },
  };
  const row = (): JobRow => readJob(resource, JOB_KIND, DEFAULTS);
  return { deps, row, dropped, write: (status: JobStatus) => writeStatus(deps, RESOURCE, row(), status) };
}

/** As a definition that knows nothing of what is remembered. */
const prune = ({ conditions, replicaStatuses }: StatusJson): StatusJson => ({
  ...(conditions !== undefined && { conditions }),
  replicaStatuses: Object.fromEntries(Object.keys(replicaStatuses ?? {}).map((type) => [type, { active: 0 }])),
});

it("remembers in the status alone what the API server keeps there", async () => {
  const { write, row, dropped } = serverOf((status) => status);
  await write(REMEMBERING);
  expect(row().status).toEqual(REMEMBERING);
  expect(row().metadata.annotations).toBeUndefined();
  expect(dropped).toEqual([]);
});

it("remembers in an annotation what the answer shows to be dropped, and reports it", async () => {
  const { write, row, dropped } = serverOf(prune);
  await write(REMEMBERING);
  expect(row().metadata.annotations?.[annotations.progress]).toContain('"restarts":4');
  expect(row().status).toMatchObject({ attempt: 2, replicas: [{ restarts: 4, completedIndexes: [1] }] });
  expect(dropped).toHaveLength(1);
});

it("continues with the annotation once there is one", async () => {
  const { write, row } = serverOf(prune);
  await write(REMEMBERING);
  await write({ ...REMEMBERING, attempt: 3 });
  expect(row().status.attempt).toBe(3);
});

describe("a status that finds no resource", () => {
  const refuse = (code: number) => (): Promise<never> => Promise.reject(Object.assign(new Error("refused"), { code }));
  const notFound = refuse(404);
  const row = serverOf((status) => status).row();
  const write = (get: () => Promise<KubeObject>) =>
    writeStatus(
      { onDropped: () => undefined, calls: { patch: notFound, get: get as never } },
      RESOURCE,
      row,
      REMEMBERING,
    );

  it("is of a job that was deleted, or made again since", async () => {
    expect(await write(notFound)).toBeUndefined();
    expect(await write(() => Promise.resolve({ metadata: { uid: "another" } }))).toBeUndefined();
  });

  it("is an error while the job is there: its definition has no status", async () => {
    await expect(write(() => Promise.resolve({ metadata: { uid: "u" } }))).rejects.toMatchObject({ code: 404 });
  });

  it("is an error when the API server does not answer whether the job is there", async () => {
    await expect(write(refuse(503))).rejects.toMatchObject({ code: 503 });
  });
});
