import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { jobWorld, type JobWorld } from "./job-world.ts";

const execute = promisify(execFile);
const KUBECTL = [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")]
  .map((directory) => join(directory, "kubectl"))
  .find((file) => existsSync(file));
if (KUBECTL === undefined && process.env["CI"] === "true") throw new Error("CI=true allows no skipped suite: kubectl");
const title = KUBECTL === undefined ? "kubectl (skipped: none in KUBEBUILDER_ASSETS or on the PATH)" : "kubectl";

/** One replica type of each kind runs the same command. */
const KINDS = [
  { kind: "Job", apiVersion: "muster.dev/v1", resource: "jobs.muster.dev", field: "replicaSpecs", type: "worker" },
  { kind: "JAXJob", apiVersion: "kubeflow.org/v1", resource: "jaxjobs", field: "jaxReplicaSpecs", type: "Worker" },
] as const;

function manifest({ kind, apiVersion, field, type }: (typeof KINDS)[number], name: string, command: string): string {
  const containers = [{ name: "jax", image: "program:1", command: ["sh", "-c", command] }];
  const replicas = { [type]: { replicas: 2, restartPolicy: "Never", template: { spec: { containers } } } };
  return JSON.stringify({ apiVersion, kind, metadata: { name }, spec: { [field]: replicas } });
}

for (const server of API_SERVERS) {
  describe.skipIf(server.skip || KUBECTL === undefined)(`${title} on jobs under ${server.title}`, () => {
    let world: JobWorld;
    let home: string;
    const slowly = { timeout: 180_000 };
    const kubectl = async (...args: string[]): Promise<string> => {
      const env = { HOME: home, PATH: "/usr/bin:/bin", KUBECONFIG: world.kubeconfig };
      return (await execute(KUBECTL ?? "", args, { env })).stdout;
    };
    const apply = async (name: string, text: string): Promise<string> => {
      const file = join(home, `${name}.json`);
      await writeFile(file, text);
      return kubectl("apply", "-f", file);
    };

    beforeAll(async () => {
      home = await mkdtemp(join(tmpdir(), "muster-kubectl-"));
      const definitions = ["muster.dev_jobs.yaml", "kubeflow.org_jaxjobs.yaml"];
      world = await jobWorld(await server.start(), { machines: 2 }, { definitions });
      await world.startController({ JOB_DEFAULT_POOL: "machines" });
    });

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
      await rm(home, { recursive: true, force: true });
    });

    it.each(KINDS)("applies a $kind, waits for its end, shows it and tells what happened", slowly, async (kind) => {
      const name = `short-${kind.type.toLowerCase()}-${kind.kind.toLowerCase()}`;
      expect(await apply(name, manifest(kind, name, "true"))).toMatch(/ created\n$/);
      await kubectl("wait", "--for=condition=Succeeded", `${kind.resource}/${name}`, "--timeout=90s");
      const row = (await kubectl("get", kind.resource, name, "--no-headers")).split(/\s+/);
      expect(row.slice(0, 2)).toEqual([name, "Succeeded"]);
      const described = await until("its events are there", async () => {
        const text = await kubectl("describe", kind.resource, name);
        return text.includes("SuccessfulCreatePod") && text;
      });
      expect(described).toMatch(/Type:\s+Succeeded/);
      expect(await apply(name, manifest(kind, name, "true"))).toMatch(/ unchanged\n$/);
      await world.untilNothingLeft(name);
    });

    it.each(KINDS)("deletes a $kind while it runs, and its machines come back", slowly, async (kind) => {
      const name = `long-${kind.kind.toLowerCase()}`;
      await apply(name, manifest(kind, name, "sleep 600"));
      await kubectl("wait", "--for=condition=Running", `${kind.resource}/${name}`, "--timeout=90s");
      expect(await kubectl("delete", kind.resource, name, "--timeout=60s")).toContain(`"${name}" deleted`);
      if (server.hasRoles) await kubectl("delete", "pods", "--all", "--grace-period=0", "--force");
      await world.untilNothingLeft(name);
    });

    it.each(KINDS)("explains a $kind to the fields of its replica types", async ({ resource, field }) => {
      expect(await kubectl("explain", resource)).toMatch(/KIND: +\w*Job\n/);
      expect(await kubectl("explain", `${resource}.spec.${field}`)).toContain("restartPolicy");
    });
  });
}
