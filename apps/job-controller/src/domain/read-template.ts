import { isObject } from "@muster/resources";
import type { Container, PodTemplate } from "./job.ts";
import { checkSelection } from "./read-node-selection.ts";
import { type Fields, toFields, INT32, type ReadNotes } from "./read-fields.ts";

/**
 * Reads the pod template of a replica type, without its nulls. Returns undefined after a problem was noted: fields that a rule or a builder reads must have the
 * expected form, however the object was admitted.
 */
export function readTemplate(replica: Fields, notes: ReadNotes): PodTemplate | undefined {
  const written = replica.raw("template");
  if (written === undefined) {
    replica.refuse("template", "is missing");
    return undefined;
  }
  const template = withoutNulls(written);
  const path = `${replica.path}.template`;
  if (!isTemplate(template, path, notes)) return undefined;
  const { restartPolicy } = template.spec;
  if (restartPolicy !== undefined) {
    const reason = `is replaced: the restartPolicy of the replica type (${replica.path}.restartPolicy) decides, not ${restartPolicy}`;
    notes.warnings.push({ field: `${path}.spec.restartPolicy`, reason });
  }
  return template;
}

function isTemplate(value: unknown, path: string, notes: ReadNotes): value is PodTemplate {
  const before = notes.problems.length;
  const template = toFields(value, path, notes);
  const metadata = template?.object("metadata");
  checkTexts(metadata?.object("labels"));
  checkTexts(metadata?.object("annotations"));
  const spec = template?.object("spec");
  if (spec === undefined) template?.refuse("spec", "is missing");
  else checkSpec(spec, notes);
  return notes.problems.length === before;
}

function checkSpec(spec: Fields, notes: ReadNotes): void {
  const containers = spec.objects("containers");
  if (containers.length === 0) spec.refuse("containers", "needs at least one container");
  const names = new Set<string>();
  for (const container of [...spec.objects("initContainers"), ...containers]) {
    checkContainer(container);
    const name = container.text("name") ?? "";
    if (name === "") container.refuse("name", "is missing");
    else if (names.has(name)) container.refuse("name", `"${name}" is used twice`);
    names.add(name);
  }
  for (const name of ["restartPolicy", "schedulerName", "priorityClassName"]) spec.text(name);
  if (spec.raw("nodeName") !== undefined)
    spec.refuse("nodeName", "must not be set: the machine is one that the pool has granted");
  spec.objects("volumes");
  const affinity = spec.object("affinity");
  affinity?.object("podAntiAffinity")?.objects("requiredDuringSchedulingIgnoredDuringExecution");
  checkSelection(spec, notes);
}

function checkContainer(container: Fields): void {
  if ((container.text("image") ?? "") === "") container.refuse("image", "is missing");
  for (const variable of container.objects("env")) {
    variable.text("value");
    if ((variable.text("name") ?? "") === "") variable.refuse("name", "is missing");
  }
  for (const port of container.objects("ports")) {
    port.text("name");
    port.text("protocol");
    if (port.raw("containerPort") === undefined) port.refuse("containerPort", "is missing");
    port.integer("containerPort", PORT);
  }
  container.objects("volumeMounts");
  const resources = container.object("resources");
  for (const amounts of [resources?.object("requests"), resources?.object("limits")]) {
    for (const name of amounts?.names ?? []) {
      const amount = amounts?.raw(name);
      if (typeof amount !== "string" && typeof amount !== "number") amounts?.refuse(name, "must be a quantity");
    }
  }
}

export const PORT = { min: 1, max: 65_535 };

function checkTexts(map: Fields | undefined): void {
  for (const name of map?.names ?? []) map?.text(name);
}

/** The maximum depth of a manifest; the API server's own limit is much lower. */
const MAX_DEPTH = 100;

function withoutNulls(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) return undefined;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(kept.map(([name, field]) => [name, withoutNulls(field, depth + 1)]));
}

/** Returns undefined if the template has no container of that name. */
export function findContainer(template: PodTemplate, name: string | undefined): Container | undefined {
  return template.spec.containers.find((container) => container.name === name);
}

/** The limits of a count of pods. */
export const COUNT = { min: 0, max: INT32.max };
