import { checkNodeSelection, checkSchema, type Path, type ValueReader, type WrittenSelection } from "@muster/documents";
import {
  API_GROUP,
  checkDnsLabel,
  checkEnvName,
  checkLabelKey,
  checkLabelValue,
  isReservedEnvName,
} from "@muster/names";
import { COMPONENT_TEMPLATE_SCHEMA, MAIN_CONTAINER, VOLUME_SOURCES } from "./component-template.ts";

type Fields = Readonly<Record<string, unknown>>;
type Named = Fields & { readonly name: string };

/** A container of a template that was checked. */
export type TemplateContainer = Named & {
  readonly env?: readonly Named[];
  readonly envFrom?: readonly Fields[];
  readonly volumeMounts?: readonly Named[];
  readonly securityContext?: Fields;
  readonly resources?: { readonly requests?: Fields; readonly limits?: Fields };
};

/** A checked template; unchecked fields are plain fields of `spec`. */
export type ComponentTemplate = {
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: Fields &
    WrittenSelection & {
      readonly containers?: readonly TemplateContainer[];
      readonly initContainers?: readonly TemplateContainer[];
      readonly volumes?: readonly Named[];
    };
};

/**
 * Returns undefined after it has reported a problem: a field that the schema refuses, or a conflict within the template, with the component's `env`, or with a
 * field that Muster sets. Does not check the cluster, such as whether a Secret exists.
 */
export function checkComponentTemplate(
  reader: ValueReader,
  path: Path,
  value: unknown,
  env: readonly { readonly name: string }[],
): ComponentTemplate | undefined {
  const before = reader.findings.length;
  checkSchema(reader, COMPONENT_TEMPLATE_SCHEMA, path, value);
  if (reader.findings.length > before) return undefined;
  // The schema has closed every mapping and named every type.
  const template = value as ComponentTemplate;
  checkMetadata(reader, [...path, "metadata"], template);
  checkSpec(reader, [...path, "spec"], template.spec, env);
  return reader.findings.length > before ? undefined : template;
}

const MANAGED_BY = "app.kubernetes.io/managed-by";
/** Prefix of the labels by which the controller of jobs finds the pods of a job. */
const JOB_LABELS = "training.kubeflow.org/";
const APPARMOR = "container.apparmor.security.beta.kubernetes.io/";

function checkMetadata(reader: ValueReader, path: Path, { metadata = {} }: ComponentTemplate): void {
  for (const field of ["labels", "annotations"] as const) {
    for (const [key, value] of Object.entries(metadata[field] ?? {})) {
      const here = [...path, field, key];
      if (key === MANAGED_BY || key.startsWith(`${API_GROUP}/`))
        reader.report(here, `cannot be "${value}": Muster sets ${API_GROUP}/* and ${MANAGED_BY} itself`);
      if (key.startsWith(JOB_LABELS)) reader.report(here, "names a pod of a job; choose another name");
      if (key.startsWith(APPARMOR)) reader.report(here, "pods of sessions keep the AppArmor profile of the cluster");
      report(reader, here, checkLabelKey(key, key));
      if (field === "labels") report(reader, here, checkLabelValue(key, value));
    }
  }
}

function checkSpec(
  reader: ValueReader,
  path: Path,
  spec: ComponentTemplate["spec"],
  env: readonly { readonly name: string }[],
): void {
  const { volumes = [], initContainers = [], containers = [] } = spec;
  checkNames(reader, [...path, "volumes"], volumes, []);
  for (const [index, volume] of volumes.entries())
    checkOne(reader, [...path, "volumes", index], volume, Object.keys(VOLUME_SOURCES));
  checkNames(reader, [...path, "initContainers"], initContainers, [MAIN_CONTAINER]);
  const volumeNames = volumes.map(({ name }) => name);
  for (const [field, list] of Object.entries({ initContainers, containers })) {
    for (const [index, container] of list.entries())
      checkContainer(reader, [...path, field, index], container, volumeNames);
  }
  for (const problem of checkNodeSelection(spec)) reader.report([...path, ...problem.path], problem.message);
  const componentNames = env.map(({ name }) => name);
  for (const [index, { name }] of (containers[0]?.env ?? []).entries()) {
    const here = [...path, "containers", 0, "env", index, "name"];
    if (isReservedEnvName(name)) reader.report(here, `"${name}" is set by the session controller; choose another name`);
    if (componentNames.includes(name)) reader.report(here, `"${name}" is also in the component's env; leave one out`);
  }
}

function checkContainer(
  reader: ValueReader,
  path: Path,
  container: TemplateContainer,
  volumes: readonly string[],
): void {
  const { env = [], envFrom = [], volumeMounts = [] } = container;
  const seen = new Set<string>();
  for (const [index, variable] of env.entries()) {
    const here = [...path, "env", index];
    report(reader, [...here, "name"], checkEnvName("name", variable.name));
    if (seen.has(variable.name)) reader.report([...here, "name"], `"${variable.name}" is set twice`);
    seen.add(variable.name);
    const { value, valueFrom } = variable;
    if (value !== undefined && valueFrom !== undefined)
      reader.report(here, "has value and valueFrom; leave one of the two out");
    if (valueFrom !== undefined)
      checkOne(reader, [...here, "valueFrom"], valueFrom, [
        "secretKeyRef",
        "configMapKeyRef",
        "fieldRef",
        "resourceFieldRef",
      ]);
  }
  for (const [index, source] of envFrom.entries())
    checkOne(reader, [...path, "envFrom", index], source, ["secretRef", "configMapRef"]);
  for (const [index, { name }] of volumeMounts.entries()) {
    if (volumes.includes(name)) continue;
    const known = volumes.length === 0 ? "the template has no volumes" : `volumes are ${volumes.join(", ")}`;
    reader.report([...path, "volumeMounts", index, "name"], `"${name}" is no volume of the template; ${known}`);
  }
}

/** DNS labels, each once. */
function checkNames(reader: ValueReader, path: Path, named: readonly Named[], taken: readonly string[]): void {
  const seen = new Set(taken);
  for (const [index, { name }] of named.entries()) {
    const here = [...path, index, "name"];
    report(reader, here, checkDnsLabel("name", name));
    if (seen.has(name)) reader.report(here, `"${name}" is the name of two of them`);
    seen.add(name);
  }
}

/** Exactly one of these fields. */
function checkOne(reader: ValueReader, path: Path, value: unknown, fields: readonly string[]): void {
  const given = fields.filter((field) => Object.hasOwn(value as Fields, field));
  if (given.length === 1) return;
  reader.report(path, `needs exactly one of ${fields.join(", ")}, and has ${given.join(" and ") || "none"}`);
}

function report(reader: ValueReader, path: Path, fault: ReturnType<typeof checkDnsLabel>): void {
  if (fault?.code === "invalid_request") reader.report(path, fault.reason);
}
