import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { isManifest, findKind, type Manifest } from "../render.ts";

export type Container = {
  readonly name: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly [field: string]: unknown;
};
export type Replica = {
  readonly replicas?: number;
  readonly restartPolicy?: string;
  readonly template: {
    readonly spec: { readonly containers: readonly Container[]; readonly [field: string]: unknown };
  };
};
/** A job of one of Kubeflow's kinds, as its file contains it. */
export type Example = Manifest & {
  readonly spec: { readonly [field: string]: unknown } & Partial<
    Record<ReplicaField, Readonly<Record<string, Replica>>>
  >;
};
type ReplicaField = "tfReplicaSpecs" | "pytorchReplicaSpecs" | "mpiReplicaSpecs" | "jaxReplicaSpecs";

const FIELDS: Readonly<Record<string, ReplicaField>> = {
  TFJob: "tfReplicaSpecs",
  PyTorchJob: "pytorchReplicaSpecs",
  MPIJob: "mpiReplicaSpecs",
  JAXJob: "jaxReplicaSpecs",
};

const root = process.env["MUSTER_CRD_FIXTURES"];
const folder = join(root ?? "", "kubeflow");

/** Whether the fixtures contain examples and definitions of Kubeflow; with CI=true they must. */
export const FIXTURES = {
  found: root !== undefined && existsSync(join(folder, "examples")),
  reason: "MUSTER_CRD_FIXTURES names no folder with kubeflow/examples, which are those of its training operator",
};
if (!FIXTURES.found && process.env["CI"] === "true")
  throw new Error(`CI=true allows no skipped suite: ${FIXTURES.reason}`);

/** Returns the published definitions of the kinds that have examples, unchanged. */
export function listPublishedDefinitions(): readonly string[] {
  return ["tfjobs", "pytorchjobs", "mpijobs"].map((plural) => join(folder, `kubeflow.org_${plural}.yaml`));
}

/** Reads every job among the examples, by the file that contains it. */
export function readExamples(): ReadonlyMap<string, Example> {
  const examples = join(folder, "examples");
  const jobs = globSync("**/*.yaml", { cwd: examples })
    .sort()
    .flatMap((file) =>
      parseAllDocuments(readFileSync(join(examples, file), "utf8")).map((document): [string, unknown] => [
        file,
        document.toJS(),
      ]),
    );
  return new Map(jobs.flatMap(([file, manifest]) => (isExample(manifest) ? [[file, manifest] as const] : [])));
}

export function isExample(manifest: unknown): manifest is Example {
  return isManifest(manifest) && findKind(manifest) !== undefined && FIELDS[manifest.kind] !== undefined;
}

/** Returns the replica types of a job, and the number of pods of each. */
export function listReplicas(job: Example): readonly (readonly [type: string, replica: Replica, count: number])[] {
  return Object.entries(job.spec[FIELDS[job.kind] ?? "tfReplicaSpecs"] ?? {}).map(
    ([type, replica]) => [type, replica, replica.replicas ?? 1] as const,
  );
}

/**
 * Replaces the programs of the images by a program of this machine. Otherwise only the namespace changes to that of the test, because the controller serves
 * one. GPUs are a resource of the nodes, and a volume whose claim is not bound is absent for processes.
 */
export function withPrograms(
  job: Example,
  program: (type: string, container: Container) => readonly string[] | undefined,
): Example {
  const field = FIELDS[job.kind] ?? "tfReplicaSpecs";
  const replicas = listReplicas(job).map(([type, replica]): [string, Replica] => {
    const { spec } = replica.template;
    const containers = spec.containers.map((container): Container => {
      const { args: _, ...rest } = container;
      const command = program(type, container);
      return command === undefined ? container : { ...rest, command };
    });
    return [type, { ...replica, template: { ...replica.template, spec: { ...spec, containers } } }];
  });
  const { namespace: _, ...metadata } = job.metadata;
  return { ...job, metadata, spec: { ...job.spec, [field]: Object.fromEntries(replicas) } };
}
