import { beforeAll, describe, expect, it } from "vitest";
import { listAt, objectAt, textAt } from "../../src/apiserver/json.ts";
import type { Answer, Api } from "./api.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/** What keeps those apart who share a cluster. */
export function describeTenancy(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });
  const causes = ({ body }: Answer): string[] =>
    listAt(body, "details", "causes").map((cause) => `${textAt(cause, "field")}: ${textAt(cause, "message")}`);
  const cellsOf = async (path: string): Promise<unknown[]> => {
    const table = await api().get(path, TABLE);
    return [...listAt(listAt(table.body, "rows")[0], "cells")];
  };

  describe("a network policy", () => {
    const policies = (name = ""): string =>
      `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/${name}`.replace(/\/$/, "");
    const policy = (name: string, spec: object): object => ({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name },
      spec,
    });

    it("says which directions it is for, and by which protocol", async () => {
      const made = await api().post(
        policies(),
        policy("filled", { podSelector: { matchLabels: { app: "a" } }, egress: [{ ports: [{ port: 53 }] }] }),
      );
      expect(made.code, made.text).toBe(201);
      expect(made.body).toMatchObject({ metadata: { generation: 1 } });
      expect(objectAt(made.body, "spec")).toEqual({
        podSelector: { matchLabels: { app: "a" } },
        policyTypes: ["Ingress", "Egress"],
        egress: [{ ports: [{ port: 53, protocol: "TCP" }] }],
      });
      expect((await cellsOf(policies("filled"))).slice(0, 2)).toEqual(["filled", "app=a"]);
      const all = await api().post(policies(), policy("all", { podSelector: {} }));
      expect(objectAt(all.body, "spec")).toEqual({ podSelector: {}, policyTypes: ["Ingress"] });
      expect((await cellsOf(policies("all"))).slice(0, 2)).toEqual(["all", "<none>"]);
    });

    it.each([
      [{ ingress: [{ from: [{}] }] }, ["spec.ingress[0].from[0]: Required value: must specify a peer"]],
      [
        { ingress: [{ from: [{ podSelector: {}, ipBlock: { cidr: "10.0.0.0/8" } }] }] },
        ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
      ],
      [
        { egress: [{ to: [{ ipBlock: { cidr: "everywhere" } }] }] },
        [
          'spec.egress[0].to[0].ipBlock.cidr: Invalid value: "everywhere": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        ],
      ],
      [
        { egress: [{ to: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] } }] }] },
        [
          expect.stringMatching(
            /^spec\.egress\[0\]\.to\[0\]\.ipBlock\.except\[0\]: Invalid value: "11\.0\.0\.0\/16": must/,
          ),
        ],
      ],
      [
        { ingress: [{ ports: [{ protocol: "ICMP", port: 70000 }] }] },
        [
          'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
          "spec.ingress[0].ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
      ],
      [
        { policyTypes: ["Sideways"] },
        ['spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"'],
      ],
    ])("is refused with %j", async (wrong, because) => {
      const refused = await api().post(policies(), policy("wrong", { podSelector: {}, ...wrong }));
      expect(refused.code, refused.text).toBe(422);
      expect(causes(refused)).toEqual(because);
    });
  });

  describe("a class of storage", () => {
    const classes = (name = ""): string => `/apis/storage.k8s.io/v1/storageclasses/${name}`.replace(/\/$/, "");
    const storage = (name: string, more: object = {}): object => ({
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name },
      provisioner: "example.com/disks",
      ...more,
    });

    it("is completed, shown, and stays as it is", async () => {
      const name = `${namespace}-disks`;
      const made = await api().post(classes(), storage(name));
      expect(made.code, made.text).toBe(201);
      expect(made.body).toMatchObject({ reclaimPolicy: "Delete", volumeBindingMode: "Immediate" });
      expect((await cellsOf(classes(name))).slice(0, 5)).toEqual([
        name,
        "example.com/disks",
        "Delete",
        "Immediate",
        false,
      ]);
      const moved = await api().patch(classes(name), "merge", { provisioner: "example.com/other" });
      expect(moved.code).toBe(422);
      expect(moved.text).toContain("field is immutable");
      expect((await api().patch(classes(name), "merge", { allowVolumeExpansion: true })).code).toBe(200);
      const gone = await api().delete(classes(name));
      expect(gone.body).toMatchObject({ kind: "StorageClass", metadata: { name } });
    });

    it.each([
      [{ provisioner: "" }, ["provisioner: Required value"]],
      [{ reclaimPolicy: "Burn" }, ['reclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Retain"']],
      [
        { volumeBindingMode: "Never" },
        ['volumeBindingMode: Unsupported value: "Never": supported values: "Immediate", "WaitForFirstConsumer"'],
      ],
    ])("is refused with %j", async (wrong, because) => {
      const refused = await api().post(classes(), storage(`${namespace}-wrong`, wrong));
      expect(refused.code, refused.text).toBe(422);
      expect(causes(refused)).toEqual(because);
    });
  });
}
