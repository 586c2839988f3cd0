import { checkNodeSelection, type Path, type WrittenSelection } from "@muster/documents";
import { NODE_SELECTOR_OPERATORS, readNodeSelection } from "@muster/resources";
import type { JobSpec } from "./job.ts";
import type { Fields, ReadNotes } from "./read-fields.ts";

/** Notes a problem for each part of the node selector, the node affinity and the tolerations that is unreadable or that the API server refuses. */
export function checkSelection(spec: Fields, notes: ReadNotes): void {
  const before = notes.problems.length;
  const selector = spec.object("nodeSelector");
  for (const name of selector?.names ?? []) selector?.text(name);
  const affinity = spec.object("affinity")?.object("nodeAffinity");
  const required = affinity?.object("requiredDuringSchedulingIgnoredDuringExecution");
  for (const term of required?.objects("nodeSelectorTerms") ?? [])
    for (const each of [...term.objects("matchExpressions"), ...term.objects("matchFields")]) {
      each.text("key");
      each.oneOf("operator", NODE_SELECTOR_OPERATORS);
      each.texts("values");
    }
  for (const toleration of spec.objects("tolerations"))
    for (const name of ["key", "operator", "value", "effect"]) toleration.text(name);
  if (notes.problems.length > before) return;
  // The loops above have checked the types of these fields.
  const [nodeSelector, tolerations] = [spec.raw("nodeSelector"), spec.raw("tolerations")];
  const written = { nodeSelector, affinity: spec.raw("affinity"), tolerations } as WrittenSelection;
  for (const { path, message } of checkNodeSelection(written)) spec.refuse(fieldAt(path), message);
}

/** Formats the path as problems of manifests name fields: `affinity.terms[0].key`. */
function fieldAt(path: Path): string {
  return path.reduce<string>((field, part) => {
    if (typeof part === "number") return `${field}[${part}]`;
    return field === "" ? part : `${field}.${part}`;
  }, "");
}

/** Sets the nodes that the members of each type accept. */
export function withNodeSelections(spec: JobSpec, poolLabel: string): JobSpec {
  const replicas = spec.replicas.map((replica) => {
    const selection = readNodeSelection(replica.template.spec, poolLabel);
    return selection === undefined ? replica : { ...replica, selection };
  });
  return { ...spec, replicas };
}
