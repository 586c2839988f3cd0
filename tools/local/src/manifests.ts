import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubeCalls, KubeObject } from "@muster/kube";
import { parseAllDocuments } from "yaml";
import { ROOT } from "./stack.ts";

/** The objects of a file of the repository, or of one with an absolute name. */
export async function readManifests(file: string): Promise<readonly KubeObject[]> {
  const text = await readFile(file.startsWith("/") ? file : join(ROOT, file), "utf8");
  return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
}

/** Applies the objects one after another, as `kubectl apply --server-side --force-conflicts` does. */
export async function applyAll(calls: KubeCalls, objects: readonly KubeObject[]): Promise<void> {
  for (const body of objects) {
    const { apiVersion = "", kind = "", metadata } = body;
    const namespace = metadata?.namespace;
    const resource = {
      apiVersion,
      plural: `${kind.toLowerCase()}s`.replace(/ys$/, "ies"),
      ...(namespace !== undefined && { namespace }),
    };
    const query = { fieldManager: "muster-local", force: true };
    await calls.patch(resource, metadata?.name ?? "", { kind: "apply", body }, { query });
  }
}
