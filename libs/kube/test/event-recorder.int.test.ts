import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { CoreV1Event, V1ConfigMap } from "@kubernetes/client-node";
import { findKubeAssets } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { makeEventRecorder, makeKubeCalls } from "../src/index.ts";
import { apiServers } from "./api-servers.ts";

const assets = findKubeAssets();
const kubectl = assets.found ? join(assets.directory, "kubectl") : "";
const maps = { apiVersion: "v1", plural: "configmaps", namespace: "default" };

describe.each(apiServers())("on $title", ({ skip, start }) => {
  it.skipIf(skip)("keeps equal events as one with a count, and many similar ones as one more", async () => {
    await using server = await start();
    await using calls = makeKubeCalls(server.config);
    const map = await calls.create<V1ConfigMap>(maps, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "m" } });
    const uid = map.metadata?.uid ?? "";
    const target = { apiVersion: "v1", kind: "ConfigMap", namespace: "default", name: "m", uid };
    const errors: unknown[] = [];
    const recorder = makeEventRecorder({ calls, component: "tested", onError: (error) => errors.push(error) });
    for (let at = 0; at < 3; at += 1) recorder.record(target, { type: "Warning", reason: "Same", message: "again" });
    for (let at = 0; at < 14; at += 1)
      recorder.record(target, { type: "Normal", reason: "Like", message: `no. ${at}` });
    await recorder[Symbol.asyncDispose]();
    expect(errors).toEqual([]);

    const query = { fieldSelector: `involvedObject.uid=${uid}` };
    const { items } = await calls.list<CoreV1Event>(
      { apiVersion: "v1", plural: "events", namespace: "default" },
      { query },
    );
    const events = items.map(({ type, reason, message, count }) => `${type} ${reason} ${message} x${count}`);
    expect(events.sort()).toEqual(
      [
        "Warning Same again x3",
        ...Array.from({ length: 10 }, (_, at) => `Normal Like no. ${at} x1`),
        "Normal Like (combined from similar events): no. 13 x4",
      ].sort(),
    );

    if (!existsSync(kubectl)) return;
    const shown = await promisify(execFile)(kubectl, ["--kubeconfig", server.kubeconfig, "describe", "configmap", "m"]);
    expect(shown.stdout).toMatch(/Warning\s+Same\s+\S+ \(x3 over \S+\)\s+tested\s+again/);
  });
});
