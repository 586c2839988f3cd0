import type { KubeObject } from "@muster/kube";
import { annotations } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { JOB_KIND } from "../domain/kind-job.ts";
import { NEW_STATUS, type JobStatus } from "../domain/job-status.ts";
import { DEFAULTS, buildJobManifest } from "../../test/manifests.ts";
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

/** Serves one job; `keep` returns the part of a status that the definition keeps. */
function serverOf(keep: (status: StatusJson) => StatusJson) {
  const manifest = buildJobManifest("train");
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

/** Keeps the fields of a definition without any remembered state. */
const prune = ({ conditions, replicaStatuses }: StatusJson): StatusJson => ({
  ...(conditions !== undefined && { conditions }),
  replicaStatuses: Object.fromEntries(Object.keys(replicaStatuses ?? {}).map((type) => [type, { active: 0 }])),
});

it("stores state in the status alone if the API server keeps it", async () => {
  const { write, row, dropped } = serverOf((status) => status);
  await write(REMEMBERING);
  expect(row().status).toEqual(REMEMBERING);
  expect(row().metadata.annotations).toBeUndefined();
  expect(dropped).toEqual([]);
});

it("stores state in an annotation if the answer shows that it was dropped, and reports it", async () => {
  const { write, row, dropped } = serverOf(prune);
  await write(REMEMBERING);
  expect(row().metadata.annotations?.[annotations.progress]).toContain('"restarts":4');
  expect(row().status).toMatchObject({ attempt: 2, replicas: [{ restarts: 4, completedIndexes: [1] }] });
  expect(dropped).toHaveLength(1);
});

it("keeps using an existing annotation", async () => {
  const { write, row } = serverOf(prune);
  await write(REMEMBERING);
  await write({ ...REMEMBERING, attempt: 3 });
  expect(row().status.attempt).toBe(3);
});

describe("the write of a status that finds no resource", () => {
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

  it("reports a job that was deleted, or recreated since", async () => {
    expect(await write(notFound)).toBeUndefined();
    expect(await write(() => Promise.resolve({ metadata: { uid: "another" } }))).toBeUndefined();
  });

  it("fails if the job exists, because its definition has no status", async () => {
    await expect(write(() => Promise.resolve({ metadata: { uid: "u" } }))).rejects.toMatchObject({ code: 404 });
  });

  it("fails if the API server does not answer whether the job exists", async () => {
    await expect(write(refuse(503))).rejects.toMatchObject({ code: 503 });
  });
});
