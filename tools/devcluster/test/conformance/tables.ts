import { beforeAll, describe, expect, it } from "vitest";
import { at, isObject, type JsonValue, type JsonObject, getList, getText } from "../../src/apiserver/json.ts";
import { type Api, configMap, pod } from "./api.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/** Columns as kubectl prints them. Behind the bar are those of `-o wide`, which only pods and nodes have on both servers. */
const COLUMNS: readonly (readonly [path: string, columns: string])[] = [
  ["/api/v1/pods", "Name Ready Status Restarts Age | IP Node Nominated Node Readiness Gates"],
  [
    "/api/v1/nodes",
    "Name Status Roles Age Version | Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
  ],
  ["/api/v1/namespaces", "Name Status Age"],
  ["/api/v1/services", "Name Type Cluster-IP External-IP Port(s) Age"],
  ["/api/v1/configmaps", "Name Data Age"],
  ["/api/v1/secrets", "Name Type Data Age"],
  ["/api/v1/serviceaccounts", "Name Age"],
  ["/api/v1/events", "Last Seen Type Reason Object Message"],
  ["/apis/coordination.k8s.io/v1/leases", "Name Holder Age"],
];

/** The tables of kubectl. */
export function describeTables(api: () => Api): void {
  let namespace: string;
  let pods: string;
  beforeAll(async () => {
    namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });

  it.each(COLUMNS)("has the columns of %s", async (path, expected) => {
    const answer = await api().get(path, TABLE);
    expect(answer.body).toMatchObject({ kind: "Table", apiVersion: "meta.k8s.io/v1" });
    const columns = getList(answer.body, "columnDefinitions");
    const names = (wide: boolean): string =>
      columns
        .filter((column) => (at(column, "priority") !== 0) === wide)
        .map((column) => getText(column, "name"))
        .join(" ");
    expect(expected.includes("|") ? `${names(false)} | ${names(true)}` : names(false)).toBe(expected);
    expect(columns.every((column) => getText(column, "type") === "string")).toBe(true);
  });

  it("carries the metadata of each row, or the object when asked for", async () => {
    const maps = `/api/v1/namespaces/${namespace}/configmaps`;
    await api().post(maps, configMap("row", { metadata: { labels: { a: "b" } } }));
    const one = await api().get(`${maps}/row`, TABLE);
    expect(getList(one.body, "rows")).toHaveLength(1);
    expect(at(getList(one.body, "rows")[0], "object")).toMatchObject({
      kind: "PartialObjectMetadata",
      apiVersion: "meta.k8s.io/v1",
      metadata: { name: "row", labels: { a: "b" } },
    });
    const whole = await api().get(`${maps}?includeObject=Object`, TABLE);
    const rows = getList(whole.body, "rows").filter(isObject);
    expect(rows.map((row) => getText(row, "object", "data", "key"))).toContain("value");
  });

  it("shows only metadata to clients that request no more", async () => {
    const maps = `/api/v1/namespaces/${namespace}/configmaps`;
    await api().post(maps, configMap("metadata-only"));
    const form = (as: string): string => `application/json;as=${as};g=meta.k8s.io;v=v1`;
    const one = await api().get(`${maps}/metadata-only`, form("PartialObjectMetadata"));
    expect(one.body).toMatchObject({ kind: "PartialObjectMetadata", metadata: { name: "metadata-only" } });
    expect(at(one.body, "data")).toBeUndefined();
    const list = await api().get(maps, form("PartialObjectMetadataList"));
    expect(list.body).toMatchObject({ kind: "PartialObjectMetadataList" });
    expect(getList(list.body, "items").some((item) => at(item, "data") !== undefined)).toBe(false);
  });

  describe("of pods", () => {
    const waiting = (reason: string): object => ({ state: { waiting: { reason } } });
    const ended = (exitCode: number, more: object = {}): object => ({ state: { terminated: { exitCode, ...more } } });
    const running = { ready: true, started: true, state: { running: { startedAt: "2026-01-01T00:00:00Z" } } };
    const ready = [{ type: "Ready", status: "True" }];
    const container = (name: string, more: object): object => ({
      name,
      ready: false,
      restartCount: 0,
      image: "program:1",
      imageID: "",
      ...more,
    });
    const cases: readonly (readonly [expected: string, status: object])[] = [
      ["0/2 Pending 0", {}],
      [
        "0/2 ContainerCreating 0",
        { phase: "Pending", containerStatuses: [container("a", waiting("ContainerCreating"))] },
      ],
      [
        "2/2 Running 0",
        { phase: "Running", conditions: ready, containerStatuses: [container("a", running), container("b", running)] },
      ],
      [
        "1/2 CrashLoopBackOff 3",
        {
          phase: "Running",
          containerStatuses: [
            container("a", running),
            container("b", { ...waiting("CrashLoopBackOff"), restartCount: 3 }),
          ],
        },
      ],
      [
        "0/2 Completed 0",
        {
          phase: "Succeeded",
          containerStatuses: [
            container("a", ended(0, { reason: "Completed" })),
            container("b", ended(0, { reason: "Completed" })),
          ],
        },
      ],
      [
        "1/2 Running 0",
        {
          phase: "Running",
          conditions: ready,
          containerStatuses: [container("a", ended(0, { reason: "Completed" })), container("b", running)],
        },
      ],
      [
        "1/2 NotReady 0",
        {
          phase: "Running",
          containerStatuses: [container("a", ended(0, { reason: "Completed" })), container("b", running)],
        },
      ],
      [
        "0/2 Error 1",
        { phase: "Failed", containerStatuses: [container("a", { ...ended(1, { reason: "Error" }), restartCount: 1 })] },
      ],
      ["0/2 ExitCode:3 0", { phase: "Failed", containerStatuses: [container("a", ended(3))] }],
      ["0/2 Signal:9 0", { phase: "Failed", containerStatuses: [container("a", ended(0, { signal: 9 }))] }],
      ["0/2 Evicted 0", { phase: "Failed", reason: "Evicted" }],
      ["0/2 SchedulingGated 0", { conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }] }],
      ["0/2 Init:0/1 0", { phase: "Pending", initContainerStatuses: [container("first", running)] }],
      [
        "0/2 Init:Error 2",
        {
          phase: "Pending",
          initContainerStatuses: [container("first", { ...ended(1, { reason: "Error" }), restartCount: 2 })],
        },
      ],
      ["0/2 Init:ExitCode:4 0", { phase: "Pending", initContainerStatuses: [container("first", ended(4))] }],
      [
        "0/2 Init:CrashLoopBackOff 0",
        { phase: "Pending", initContainerStatuses: [container("first", waiting("CrashLoopBackOff"))] },
      ],
    ];

    it.each(cases)("prints %s", async (expected, status) => {
      const containers = ["a", "b"].map((name) => ({ name, image: "program:1" }));
      const initContainers = [{ name: "first", image: "program:1" }];
      const made = await api().post(pods, {
        metadata: { generateName: "printed-" },
        spec: { containers, initContainers },
      });
      const path = `${pods}/${getText(made.body, "metadata", "name")}`;
      const written = await api().patch(`${path}/status`, "merge", { status });
      expect(written.code, written.text).toBe(200);
      const row = cells((await api().get(path, TABLE)).body);
      expect(
        row
          .slice(1, 4)
          .map((cell) => textOf(cell))
          .join(" "),
      ).toBe(expected);
    });

    it("shows that a pod is terminating", async () => {
      await api().post(pods, pod("going", { spec: { nodeName: "some-node" } }));
      await api().delete(`${pods}/going`);
      expect(cells((await api().get(`${pods}/going`, TABLE)).body)[2]).toBe("Terminating");
    });

    it("has the address and the node with -o wide", async () => {
      await api().post(pods, pod("placed", { spec: { nodeName: "some-node" } }));
      await api().patch(`${pods}/placed/status`, "merge", {
        status: { podIP: "127.1.0.9", podIPs: [{ ip: "127.1.0.9" }] },
      });
      expect(cells((await api().get(`${pods}/placed`, TABLE)).body).slice(5)).toEqual([
        "127.1.0.9",
        "some-node",
        "<none>",
        "<none>",
      ]);
    });
  });

  it("prints nodes with their roles and addresses", async () => {
    await api().post("/api/v1/nodes", {
      metadata: { name: "printed", labels: { "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu" } },
    });
    const status = {
      conditions: [{ type: "Ready", status: "True" }],
      addresses: [{ type: "InternalIP", address: "10.0.0.1" }],
      nodeInfo: {
        machineID: "",
        systemUUID: "",
        bootID: "",
        kubeProxyVersion: "",
        operatingSystem: "linux",
        architecture: "amd64",
        kubeletVersion: "v1.0",
        osImage: "An OS",
        kernelVersion: "6.0",
        containerRuntimeVersion: "processes://1",
      },
    };
    const written = await api().patch("/api/v1/nodes/printed/status", "merge", { status });
    expect(written.code, written.text).toBe(200);
    await api().patch("/api/v1/nodes/printed", "merge", { spec: { unschedulable: true } });
    const row = cells((await api().get("/api/v1/nodes/printed", TABLE)).body);
    expect(row.filter((_cell, index) => index !== 3)).toEqual([
      "printed",
      "Ready,SchedulingDisabled",
      "gpu,worker",
      "v1.0",
      "10.0.0.1",
      "<none>",
      "An OS",
      "6.0 (amd64)",
      "processes://1",
    ]);
  });

  it("prints services, secrets, leases and events", async () => {
    const base = `/api/v1/namespaces/${namespace}`;
    const spec = {
      clusterIP: "None",
      selector: { b: "2", a: "1" },
      ports: [
        { name: "x", port: 80 },
        { name: "y", port: 53, protocol: "UDP" },
      ],
    };
    await api().post(`${base}/services`, { metadata: { name: "printed" }, spec });
    const service = cells((await api().get(`${base}/services/printed`, TABLE)).body);
    expect(service.slice(0, 5)).toEqual(["printed", "ClusterIP", "None", "<none>", "80/TCP,53/UDP"]);
    await api().post(`${base}/secrets`, { metadata: { name: "printed" }, stringData: { a: "1", b: "2" } });
    expect(cells((await api().get(`${base}/secrets/printed`, TABLE)).body).slice(0, 3)).toEqual([
      "printed",
      "Opaque",
      2,
    ]);
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    await api().post(leases, { metadata: { name: "printed" }, spec: { holderIdentity: "me" } });
    expect(cells((await api().get(`${leases}/printed`, TABLE)).body).slice(0, 2)).toEqual(["printed", "me"]);
    await api().post(`${base}/events`, {
      metadata: { name: "printed" },
      involvedObject: { kind: "Pod", name: "p", namespace, fieldPath: "spec" },
      reason: "Why",
      message: " what \n",
      type: "Warning",
      count: 3,
      source: { component: "c", host: "h" },
    });
    const printed = await api().get(`${base}/events/printed`, TABLE);
    const event = cells(printed.body);
    const names = getList(printed.body, "columnDefinitions").map((one) => getText(one, "name"));
    const cellOf = (name: string): unknown => event[names.indexOf(name)];
    expect(["Type", "Reason", "Object", "Message"].map(cellOf)).toEqual(["Warning", "Why", "pod/p", "what"]);
  });
}

function textOf(cell: JsonValue): string {
  return typeof cell === "string" ? cell : JSON.stringify(cell);
}

function cells(table: JsonObject): readonly JsonValue[] {
  return getList(getList(table, "rows")[0], "cells");
}
