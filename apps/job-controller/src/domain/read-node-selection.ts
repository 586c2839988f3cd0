import { NODE_SELECTOR_OPERATORS, nodeSelectionOf } from "@muster/resources";
import type { JobSpec } from "./job.ts";
import type { Fields } from "./read-fields.ts";

/** Notes a problem for each part of the node affinity and the tolerations that cannot be read. */
export function checkNodeSelection(spec: Fields): void {
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
}

/** Sets the nodes that the members of each type accept. */
export function withNodeSelections(spec: JobSpec, poolLabel: string): JobSpec {
  const replicas = spec.replicas.map((replica) => {
    const selection = nodeSelectionOf(replica.template.spec, poolLabel);
    return selection === undefined ? replica : { ...replica, selection };
  });
  return { ...spec, replicas };
}
