import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubeCalls, KubeObject, KubeResource } from "@muster/kube";
import { parseAllDocuments } from "yaml";
import { ROOT } from "./root.ts";

/** Reads the objects of a file; a relative path starts at the root of the repository. */
export async function readManifests(file: string): Promise<readonly KubeObject[]> {
  const text = await readFile(file.startsWith("/") ? file : join(ROOT, file), "utf8");
  return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
}

/** Applies the objects one after another, as `kubectl apply --server-side --force-conflicts` does. */
export async function applyAll(calls: KubeCalls, objects: readonly KubeObject[], signal?: AbortSignal): Promise<void> {
  const options = { query: { fieldManager: "muster-local", force: true }, ...(signal !== undefined && { signal }) };
  for (const body of objects)
    await calls.patch(buildResource(body), body.metadata?.name ?? "", { kind: "apply", body }, options);
}

/** The API resource of the object. */
export function buildResource({ apiVersion = "", kind = "", metadata }: KubeObject): KubeResource {
  const namespace = metadata?.namespace;
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) };
}
