import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { V1CustomResourceDefinition } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { makeKubeCalls, loadKube, unlessMissing, type KubeCalls } from "@muster/kube";
import { parse } from "yaml";
import { applyAll, readManifests } from "./manifests.ts";

const RESOURCE = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
/** The job-controller needs this definition to become ready. */
const JOBS = "jobs.muster.dev";
/** Ends the names of definitions that can only be Muster's. */
const OWN_GROUP = ".muster.dev";
const LEASE_ROLE = "muster-lease";
const ESTABLISHED_TIMEOUT_MS = 30_000;

/** Muster's definitions of Kubeflow's kinds carry this label. A definition without it is Kubeflow's own, and is not overwritten. */
const OURS = { key: "app.kubernetes.io/part-of", value: "muster" };

/**
 * Applies every definition of the directory that the cluster lacks or that is Muster's, and resolves with their names once the API server serves them.
 * Kubeflow's own definitions stay unchanged.
 */
export async function installDefinitions(
  kubeconfig: string,
  directory: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  await using calls = makeKubeCalls(loadKube(kubeconfig));
  const files = (await readdir(directory)).filter((name) => name.endsWith(".yaml")).sort();
  const installed = await Promise.all(
    files.map(async (file) => {
      const body = parse(await readFile(join(directory, file), "utf8")) as V1CustomResourceDefinition;
      const name = body.metadata?.name ?? "";
      if (!name.endsWith(OWN_GROUP) && (await isForeign(calls, name, signal))) return [];
      const query = { fieldManager: "muster-local", force: true };
      await calls.patch(RESOURCE, name, { kind: "apply", body }, { query, signal });
      await established(calls, name, signal);
      return [name];
    }),
  );
  return installed.flat();
}

async function isForeign(calls: KubeCalls, name: string, signal: AbortSignal): Promise<boolean> {
  const found = await unlessMissing(calls.get<V1CustomResourceDefinition>(RESOURCE, name, { signal }));
  return found !== undefined && found.metadata?.labels?.[OURS.key] !== OURS.value;
}

/** Applies the role that gives users of leases rights in their slices of the cluster. */
export async function installLeaseRole(kubeconfig: string, manifest: string, signal: AbortSignal): Promise<void> {
  await using calls = makeKubeCalls(loadKube(kubeconfig));
  const objects = await readManifests(manifest);
  await applyAll(
    calls,
    objects.filter(({ kind, metadata }) => kind === "ClusterRole" && metadata?.name === LEASE_ROLE),
    signal,
  );
}

/** Whether the definition of jobs is installed in the cluster. */
export async function areJobsInstalled(kubeconfig: string, signal: AbortSignal): Promise<boolean> {
  await using calls = makeKubeCalls(loadKube(kubeconfig));
  return (await unlessMissing(calls.get<V1CustomResourceDefinition>(RESOURCE, JOBS, { signal }))) !== undefined;
}

async function established(calls: KubeCalls, name: string, signal: AbortSignal): Promise<void> {
  const end = performance.now() + ESTABLISHED_TIMEOUT_MS;
  for (;;) {
    const { status } = await calls.get<V1CustomResourceDefinition>(RESOURCE, name, { signal });
    if (status?.conditions?.some(({ type, status: is }) => type === "Established" && is === "True") === true) return;
    if (performance.now() > end) {
      throwFault({ code: "deadline_exceeded", operation: `installing ${name}`, timeoutMs: ESTABLISHED_TIMEOUT_MS });
    }
    await sleep(50, undefined, { signal });
  }
}
