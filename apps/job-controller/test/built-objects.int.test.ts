import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeKubeCalls, type KubeCalls, type KubeObject, loadKube } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { DEFAULTS } from "./manifests.ts";
import { findKind, readSample, renderManifest, SAMPLES } from "./render.ts";

/** The server stores nothing, and refuses unknown fields. */
const STRICT = { query: { dryRun: "All", fieldValidation: "Strict" } };
const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };

const ours = new URL("../../../deploy/crds/", import.meta.url).pathname;
const theirs = join(process.env["MUSTER_CRD_FIXTURES"] ?? "", "kubeflow");
const found = process.env["MUSTER_CRD_FIXTURES"] !== undefined && existsSync(theirs);
if (!found && process.env["CI"] === "true")
  throw new Error("CI=true allows no skipped suite: MUSTER_CRD_FIXTURES names no folder with kubeflow");
/** Uses Kubeflow's own definition of a kind if the fixtures have it, and otherwise ours. */
const FILES = globSync("*.yaml", { cwd: ours }).map((file) => {
  const isTheirs = found && /_(?:tfjobs|pytorchjobs|mpijobs)\.yaml$/.test(file);
  return join(isTheirs ? theirs : ours, file);
});

describe.each(API_SERVERS)("on $title", ({ skip, start }) => {
  describe.skipIf(skip)("", () => {
    let server: TestApiServer;
    let calls: KubeCalls;
    beforeAll(async () => {
      server = await start();
      calls = makeKubeCalls(loadKube(server.kubeconfig));
      for (const file of FILES) await calls.create(DEFINITIONS, parse(readFileSync(file, "utf8")) as KubeObject);
      await calls.create(
        { apiVersion: "v1", plural: "namespaces" },
        {
          apiVersion: "v1",
          kind: "Namespace",
          metadata: { name: "ml" },
        },
      );
    });
    afterAll(async () => {
      await calls[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    });

    describe.each(SAMPLES)("a %s", (name, file) => {
      const manifest = readSample(file);
      const kind = findKind(manifest);
      const { pods, services, companions } = renderManifest(manifest);
      const namespace = manifest.metadata.namespace ?? "default";

      it("is accepted unchanged", async () => {
        const resource = { apiVersion: manifest.apiVersion, plural: kind?.plural ?? "", namespace };
        await until(`${name}s are served`, () =>
          calls.list(resource).then(
            () => true,
            () => false,
          ),
        );
        const taken = await calls.create(resource, manifest, STRICT);
        expect(kind?.read(taken, DEFAULTS)).toMatchObject({ ok: true });
      });

      it("has pods, services and companions with fields that the API server knows", async () => {
        for (const pod of pods)
          await calls.create({ apiVersion: "v1", plural: "pods", namespace }, pod as unknown as KubeObject, STRICT);
        for (const service of services)
          await calls.create({ apiVersion: "v1", plural: "services", namespace }, service, STRICT);
        for (const { plural, ...companion } of companions) {
          const resource = { apiVersion: companion.apiVersion, plural, namespace };
          await calls.create(resource, companion, STRICT);
        }
      });
    });
  });
});
