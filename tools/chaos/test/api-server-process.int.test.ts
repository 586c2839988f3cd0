import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Namespace } from "@kubernetes/client-node";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { expect, it } from "vitest";
import { startApiServerProcess } from "../src/api-server-process.ts";

const AWAY_MS = 50;

it(
  "serves its stored state after a kill that comes before the server of the first one is back",
  { timeout: 180_000 },
  async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chaos-api-"));
    await using server = await startApiServerProcess("embedded", directory.path);
    await using calls = makeKubeCalls(loadKube(server.kubeconfig));
    const namespaces = { apiVersion: "v1", plural: "namespaces" };
    await calls.create(namespaces, { metadata: { name: "kept" } });
    await Promise.all([server.kill?.(AWAY_MS), server.kill?.(AWAY_MS)]);
    const found = await calls.get<V1Namespace>(namespaces, "kept");
    expect(found.metadata?.name).toBe("kept");
  },
);
