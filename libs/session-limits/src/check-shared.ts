import { describeValue, type Path, type ValueReader } from "@muster/documents";
import { COUNTABLE, isCountable, computeSpecRequests, type PodDefaults, type Requests } from "@muster/resources";
import type { ComponentTemplate, TemplateContainer } from "./check-component-template.ts";

/** The requests of a pod with this template on its node. */
export function computeTemplateRequests({ spec }: ComponentTemplate, defaults?: PodDefaults): Requests {
  return computeSpecRequests(spec, defaults);
}

const EXAMPLE = "spec.containers[0].resources.requests of its template, such as cpu: 500m and memory: 1Gi";

/**
 * Reports why a component cannot use a part of a machine: its template requests nothing, or amounts that the ledger cannot count. Undefined: it has no
 * template. `paths` are those of the field `shared` and of the template.
 */
export function checkShared(
  reader: ValueReader,
  paths: { readonly shared: Path; readonly template: Path },
  template: ComponentTemplate | undefined,
): void {
  const { containers = [], initContainers = [] } = template?.spec ?? {};
  const path = [...paths.template, "spec"];
  const before = reader.findings.length;
  for (const [index, each] of containers.entries()) checkAmounts(reader, [...path, "containers", index], each);
  for (const [index, each] of initContainers.entries()) checkAmounts(reader, [...path, "initContainers", index], each);
  if (reader.findings.length > before) return;
  const isEmpty = template === undefined || Object.keys(computeTemplateRequests(template)).length === 0;
  if (!isEmpty) return;
  const lacks = template === undefined ? "it has no template" : "its template requests nothing";
  const instead = `write what its pod needs as ${EXAMPLE}, or leave shared out for a whole machine`;
  reader.report(
    paths.shared,
    `cannot be true: the component gets the part of a machine that it requests, and ${lacks}; ${instead}`,
  );
}

function checkAmounts(reader: ValueReader, path: Path, { resources = {} }: TemplateContainer): void {
  for (const kind of ["requests", "limits"] as const)
    for (const [name, quantity] of Object.entries(resources[kind] ?? {})) {
      const here = [...path, "resources", kind, name];
      if (!isCountable(name, quantity)) reader.report(here, `must be ${COUNTABLE}, not ${describeValue(quantity)}`);
    }
}
