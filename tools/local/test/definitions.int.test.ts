import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { V1CustomResourceDefinition } from "@kubernetes/client-node";
import { startApiServer } from "@muster/devcluster";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { listApiServers } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { installDefinitions } from "../src/definitions.ts";
import { ROOT } from "../src/root.ts";

const RESOURCE = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const DIRECTORY = join(ROOT, "deploy/crds");
const GOING_ON = new AbortController().signal;

for (const server of listApiServers(startApiServer)) {
  describe.skipIf(server.skip)(`installed definitions, under ${server.title}`, { timeout: 120_000 }, () => {
    it("are the missing ones and Muster's own; a definition of Kubeflow's stays unchanged", async () => {
      await using api = await server.start();
      await using calls = makeKubeCalls(loadKube(api.kubeconfig));
      const text = await readFile(join(DIRECTORY, "kubeflow.org_tfjobs.yaml"), "utf8");
      const foreign = parse(text) as V1CustomResourceDefinition;
      const labels = { origin: "kubeflow" };
      await calls.create(RESOURCE, { ...foreign, metadata: { name: "tfjobs.kubeflow.org", labels } });

      const kubeflow = ["jaxjobs.kubeflow.org", "mpijobs.kubeflow.org", "pytorchjobs.kubeflow.org"];
      const others = [...kubeflow, "jobs.muster.dev", "queues.muster.dev"].toSorted();
      // The second installation finds its own definitions and rewrites them.
      for (const _time of ["first", "second"])
        expect((await installDefinitions(api.kubeconfig, DIRECTORY, GOING_ON)).toSorted()).toEqual(others);
      const kept = await calls.get<V1CustomResourceDefinition>(RESOURCE, "tfjobs.kubeflow.org");
      expect(kept.metadata?.labels).toEqual(labels);
    });
  });
}
