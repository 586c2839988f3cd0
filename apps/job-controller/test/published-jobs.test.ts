import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { annotations, labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { buildPod } from "../src/domain/build-pod.ts";
import { buildService, serviceOwners } from "../src/domain/build-service.ts";
import type { Kind, KindDefaults } from "../src/domain/kind.ts";
import { KINDS } from "../src/domain/kinds.ts";
import type { MemberPolicy } from "../src/domain/member-metadata.ts";

type Manifest = { readonly kind: string; readonly metadata: { readonly name: string; readonly namespace?: string } };

const DEFAULTS: KindDefaults = {
  pool: "usual",
  poolLabel: "pool",
  clusterDomain: "cluster.local",
  images: { waitForMaster: "alpine:3", kubectlDelivery: "kubectl:1" },
};
const POLICY: MemberPolicy = { keys: { labels, annotations }, defaults: DEFAULTS, schedulingGates: [] };
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

function kindOf({ kind }: Manifest): Kind | undefined {
  return KINDS.find((each) => each.kind === kind);
}

function isManifest(value: unknown): value is Manifest {
  return typeof value === "object" && value !== null && "kind" in value && "metadata" in value;
}

/** What the controller makes of a manifest: the spec it works with, and every object but the pods of one type that only differ in their index. */
function render(manifest: Manifest) {
  const kind = kindOf(manifest);
  const result = kind?.read(manifest, DEFAULTS);
  if (kind === undefined || result?.ok !== true) throw new Error(JSON.stringify(result));
  const { spec, warnings } = result;
  const job = { name: manifest.metadata.name, namespace: manifest.metadata.namespace ?? "default", uid: "0a1b-2c3d" };
  const request = { kind, job, spec };
  const pods = spec.replicas.map(({ type, replicas }) =>
    buildPod(
      { ...request, member: { type, index: replicas - 1 }, node: `node-${type}`, attempt: 0, traceparent: TRACEPARENT },
      POLICY,
    ),
  );
  const services = [...serviceOwners(request).values()].map((owner) => buildService(request, owner, POLICY.keys));
  return { spec, warnings, companions: kind.companions(job, spec, DEFAULTS), services, pods };
}

describe("what the controller makes of", () => {
  it.each([
    ["job", "../../../examples/training-job.yaml"],
    ["tfjob", "../../../examples/tfjob.yaml"],
    ["pytorchjob", "./jobs/pytorchjob.yaml"],
    ["mpijob", "./jobs/mpijob.yaml"],
    ["jaxjob", "./jobs/jaxjob.yaml"],
  ])("a %s is in its golden file", async (name, file) => {
    const manifest: unknown = parse(readFileSync(new URL(file, import.meta.url), "utf8"));
    if (!isManifest(manifest)) throw new Error(file);
    const text = `${JSON.stringify(render(manifest), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(`golden/${name}.txt`);
  });
});

const folder = join(process.env["MUSTER_CRD_FIXTURES"] ?? "", "kubeflow", "examples");
const found = process.env["MUSTER_CRD_FIXTURES"] !== undefined && existsSync(folder);
const reason = "MUSTER_CRD_FIXTURES names no folder with kubeflow/examples, which are those of its training operator";
if (!found && process.env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);

describe.skipIf(!found)(found ? "Kubeflow's own examples" : `Kubeflow's own examples (skipped: ${reason})`, () => {
  const jobs = globSync("**/*.yaml", { cwd: folder })
    .sort()
    .flatMap((file) => {
      const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8"));
      return documents.map((document) => {
        const manifest: unknown = document.toJS();
        return [file, manifest] as const;
      });
    })
    .flatMap(([file, manifest]) =>
      isManifest(manifest) && kindOf(manifest) !== undefined ? [[file, manifest] as const] : [],
    );

  it("are there", () => {
    expect(new Set(jobs.map(([, { kind }]) => kind))).toEqual(new Set(["TFJob", "PyTorchJob", "MPIJob"]));
  });

  it.each(jobs)("%s is read as it stands, and has pods", (_file, manifest) => {
    const { warnings, pods } = render(manifest);
    expect(warnings).toEqual([]);
    expect(pods.length).toBeGreaterThan(0);
  });
});
