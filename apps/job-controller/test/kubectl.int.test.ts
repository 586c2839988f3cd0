import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld } from "./job-world.ts";
import { FIXTURES, listPublishedDefinitions } from "./kubeflow/examples.ts";

const execute = promisify(execFile);
const CRDS = fileURLToPath(new URL("../../../deploy/crds", import.meta.url));
const KUBECTL = [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")]
  .map((directory) => join(directory, "kubectl"))
  .find((file) => existsSync(file));
if (KUBECTL === undefined && process.env["CI"] === "true") throw new Error("CI=true allows no skipped suite: kubectl");
const title = KUBECTL === undefined ? "kubectl (skipped: none in KUBEBUILDER_ASSETS or on the PATH)" : "kubectl";

type KindCase = {
  readonly kind: string;
  readonly apiVersion: string;
  readonly resource: string;
  readonly field: string;
  readonly container: string;
  /** The pods of each type, and whether the manifest sets their command; others run until they are ended. */
  readonly types: Readonly<Record<string, { readonly replicas: number; readonly isDescribed: boolean }>>;
};

const kubeflow = { apiVersion: "kubeflow.org/v1" };
const two = { Worker: { replicas: 2, isDescribed: true } };
const OWN: readonly KindCase[] = [
  {
    kind: "Job",
    apiVersion: "muster.dev/v1",
    resource: "jobs.muster.dev",
    field: "replicaSpecs",
    container: "main",
    types: { worker: { replicas: 2, isDescribed: true } },
  },
  { ...kubeflow, kind: "JAXJob", resource: "jaxjobs", field: "jaxReplicaSpecs", container: "jax", types: two },
];
/** Kinds whose definitions Kubeflow publishes. */
const PUBLISHED: readonly KindCase[] = [
  { ...kubeflow, kind: "TFJob", resource: "tfjobs", field: "tfReplicaSpecs", container: "tensorflow", types: two },
  {
    ...kubeflow,
    kind: "PyTorchJob",
    resource: "pytorchjobs",
    field: "pytorchReplicaSpecs",
    container: "pytorch",
    types: two,
  },
  {
    ...kubeflow,
    kind: "MPIJob",
    resource: "mpijobs",
    field: "mpiReplicaSpecs",
    container: "mpi",
    types: { Launcher: { replicas: 1, isDescribed: true }, Worker: { replicas: 1, isDescribed: false } },
  },
];
const KINDS = [...OWN, ...(FIXTURES.found ? PUBLISHED : [])];

function manifest({ kind, apiVersion, field, container, types }: KindCase, name: string, command: string): string {
  const replicas = Object.entries(types).map(([type, { replicas: count, isDescribed }]): [string, object] => {
    const containers = [
      { name: container, image: "program:1", ...(isDescribed && { command: ["sh", "-c", command] }) },
    ];
    return [type, { replicas: count, restartPolicy: "Never", template: { spec: { containers } } }];
  });
  const spec = { [field]: Object.fromEntries(replicas), runPolicy: { cleanPodPolicy: "Running" } };
  return JSON.stringify({ apiVersion, kind, metadata: { name }, spec });
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
      const published = FIXTURES.found ? listPublishedDefinitions().map((file) => relative(CRDS, file)) : [];
      const definitions = ["muster.dev_jobs.yaml", "kubeflow.org_jaxjobs.yaml", ...published];
      world = await openJobWorld(await server.start(), { machines: 3 }, { definitions });
      await world.startController({ JOB_DEFAULT_POOL: "machines" });
    });

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
      await rm(home, { recursive: true, force: true });
    });

    it.each(KINDS)("applies a $kind, waits for its end, shows it and reports what happened", slowly, async (kind) => {
      const name = `short-${kind.kind.toLowerCase()}`;
      expect(await apply(name, manifest(kind, name, "true"))).toMatch(/ created\n$/);
      await kubectl("wait", "--for=condition=Succeeded", `${kind.resource}/${name}`, "--timeout=90s");
      const [heads, row] = (await kubectl("get", kind.resource, name)).split("\n").map((line) => line.split(/\s+/));
      expect([row?.[0], row?.[heads?.indexOf("STATE") ?? 0]]).toEqual([name, "Succeeded"]);
      const described = await until("its events exist", async () => {
        const text = await kubectl("describe", kind.resource, name);
        return text.includes("SuccessfulCreatePod") && text;
      });
      expect(described).toMatch(/Type:\s+Succeeded/);
      expect(described).toContain("Created pod: ");
      expect(await apply(name, manifest(kind, name, "true"))).toMatch(/ unchanged\n$/);
      await world.untilNothingLeft(name);
    });

    it.each(KINDS)("deletes a running $kind, and its machines are released", slowly, async (kind) => {
      const name = `long-${kind.kind.toLowerCase()}`;
      await apply(name, manifest(kind, name, "sleep 600"));
      await kubectl("wait", "--for=condition=Running", `${kind.resource}/${name}`, "--timeout=90s");
      for (const [type, { replicas }] of Object.entries(kind.types)) {
        const path = `jsonpath={.status.replicaStatuses.${type}.selector}`;
        const selector = await until("the selector exists", async () => {
          const text = await kubectl("get", kind.resource, name, "--output", path);
          return text !== "" && text;
        });
        const pods = await kubectl("get", "pods", "--selector", selector, "--output=name");
        expect(pods.trim().split("\n").sort()).toEqual(
          Array.from({ length: replicas }, (_, index) => `pod/${name}-${type.toLowerCase()}-${index}`),
        );
      }
      expect(await kubectl("delete", kind.resource, name, "--timeout=60s")).toContain(`"${name}" deleted`);
      if (server.isReal) await kubectl("delete", "pods", "--all", "--grace-period=0", "--force");
      await world.untilNothingLeft(name);
    });

    it.each(KINDS)(
      "explains a $kind down to the fields of its replica types",
      slowly,
      async ({ kind, resource, field }) => {
        expect(await kubectl("explain", resource)).toMatch(new RegExp(`KIND: +${kind}\n`));
        expect(await kubectl("explain", `${resource}.spec.${field}`)).toContain("restartPolicy");
        expect(await kubectl("explain", `${resource}.status.replicaStatuses.selector`)).toContain("<string>");
      },
    );

    // The embedded server has no scale subresource.
    it.skipIf(!FIXTURES.found || !server.isReal)("scales the workers of a PyTorchJob up and down", slowly, async () => {
      const kind = PUBLISHED.find(({ resource }) => resource === "pytorchjobs");
      if (kind === undefined) throw new Error("there is no PyTorchJob");
      await apply("scaled", manifest(kind, "scaled", "sleep 600"));
      await kubectl("wait", "--for=condition=Running", "pytorchjobs/scaled", "--timeout=90s");
      const active = "{.status.replicaStatuses.Worker.active}";
      for (const count of ["3", "1"]) {
        expect(await kubectl("scale", "pytorchjobs/scaled", `--replicas=${count}`)).toContain("scaled");
        await kubectl("wait", `--for=jsonpath=${active}=${count}`, "pytorchjobs/scaled", "--timeout=60s");
        const scale = await kubectl(
          "get",
          "--raw",
          "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/scaled/scale",
        );
        expect(JSON.parse(scale)).toMatchObject({
          spec: { replicas: Number(count) },
          status: { replicas: Number(count), selector: expect.stringContaining("replica-type=worker") as unknown },
        });
      }
      await kubectl("delete", "pytorchjobs", "scaled", "--timeout=60s");
      await kubectl("delete", "pods", "--all", "--grace-period=0", "--force");
      await world.untilNothingLeft("scaled");
    });
  });
}
