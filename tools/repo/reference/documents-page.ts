import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { formatDuration } from "@muster/faults";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");

/** The part of JSON Schema, and of the schemas of CustomResourceDefinitions, that tables show. */
type Schema = {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly { readonly if?: Schema; readonly then?: Schema }[];
  readonly "x-kubernetes-int-or-string"?: boolean;
};

const OPENING = `# Fields of documents

For users who write the YAML files of \`muster run\`, \`muster apply\`, \`muster lease order FILE\` and \`kubectl apply\`, and for operators who
write the file of pools. \`npm run reference\` generates this page from the schemas.

A field in the column \`required\` is required when the object around it is present. \`[]\` is each element of a list, \`NAME\` each key of a map. Without a
default, an absent field has no value, or the one that its meaning states. The schemas also have patterns and sizes for editors:
[session](../../schemas/session.schema.json), [job](../../schemas/job.schema.json), [replica set](../../schemas/pinned-replica-set.schema.json),
[lease](../../schemas/lease.schema.json).
`;

/** Fields with many inner fields that other pages describe. */
const CLOSED: Readonly<Record<string, string>> = {
  "spec.components[].template": "[pod templates of sessions](../session-templates.md)",
};

const KUBEFLOW = ["tfjobs", "pytorchjobs", "mpijobs", "jaxjobs"];

/** Returns the page docs/reference/documents.md. */
export async function buildDocumentsPage(): Promise<string> {
  const session = read("schemas/session.schema.json");
  const lease = read("schemas/lease.schema.json");
  const types = lease.properties?.["spec"]?.allOf ?? [];
  const set = read("schemas/pinned-replica-set.schema.json");
  const parts = [
    OPENING,
    section(
      "Session",
      session,
      "One of `name` and `generateName`, and one of `image` and `command`, is required. Guide: [sessions](../sessions.md).",
    ),
    section(
      "Job",
      read("schemas/job.schema.json"),
      "The label `muster.dev/queue` names the queue whose quota the machines use. Four annotations apply to jobs of every kind. `muster.dev/pool` names the pool, or several in order of preference: `h100, a100`. `muster.dev/sharing`, of the job or of the pod template of one type, is " +
        "`exclusive` (the default: a whole machine for each pod) or `shared` (a part of a machine that holds what the template requests). " +
        "`muster.dev/topology` is a label of nodes: all machines of the job are nodes with the same value of it. " +
        '`muster.dev/preemptible: "false"` keeps the job from being preempted if its queue permits that. Guide: [jobs](../jobs.md).',
    ),
    ...KUBEFLOW.map(kubeflowSection),
    queueSection(),
    section(
      "PinnedReplicaSet",
      set,
      "One of `replicas` and `daemon`, and one of `nodeSelector` and `pool`, is required. A rollout (`muster roll OLD -f FILE`) takes a document of this kind for " +
        "its new set. Guide: [replica sets](../replica-sets.md).",
    ),
    section(
      "Lease",
      lease,
      "The type of the lease determines the fields of `spec.data`. Guides: [leases](../leases.md), [types of leases](../lease-types.md).",
    ),
    ...types.map(dataSection),
    heading(
      "File of pools",
      "`NODE_SCALER_FILE`: `providers` is a map of providers by name, `pools` a list of pools. Guide: [elastic pools](../elastic-pools.md).",
    ),
    table(await poolSchema(), "pools[]"),
    "Settings of providers: [local](../../apps/node-scaler/src/providers/local/README.md), [karpenter](../../apps/node-scaler/src/providers/karpenter/README.md),\n" +
      "[cluster-api](../../apps/node-scaler/src/providers/cluster-api/README.md), [ec2](../../apps/node-scaler/src/providers/ec2/README.md).\n",
  ];
  return parts.join("\n");
}

function read(path: string): Schema {
  return JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Schema;
}

/** Tools import no app: the module is loaded by its path. */
async function poolSchema(): Promise<Schema> {
  const path = pathToFileURL(join(ROOT, "apps/node-scaler/src/read-pools-file.ts")).href;
  const { buildPoolSchema } = (await import(path)) as { readonly buildPoolSchema: () => Schema };
  return buildPoolSchema();
}

/** The kind and the schema of a definition of deploy/crds. */
function readDefinition(file: string): { readonly kind: string; readonly schema: Schema } {
  const { spec } = parse(readFileSync(join(ROOT, "deploy/crds", file), "utf8")) as {
    readonly spec: {
      readonly names: { kind: string };
      readonly versions: readonly { schema: { openAPIV3Schema: Schema } }[];
    };
  };
  return { kind: spec.names.kind, schema: spec.versions[0]?.schema.openAPIV3Schema ?? {} };
}

function queueSection(): string {
  const { kind, schema } = readDefinition("muster.dev_queues.yaml");
  const { spec = {}, status = {} } = schema.properties ?? {};
  const required = ["apiVersion", "kind", "metadata", "spec"];
  const properties: Readonly<Record<string, Schema>> = {
    apiVersion: { const: "muster.dev/v1" },
    kind: { const: kind },
    metadata: { type: "object", description: "`name`: name of the queue, which has no namespace." },
    spec,
    status,
  };
  return section(kind, { ...schema, required, properties }, "Guide: [queues](../queues.md).");
}

function kubeflowSection(plural: string): string {
  const { kind, schema } = readDefinition(`kubeflow.org_${plural}.yaml`);
  const { runPolicy, ...others } = schema.properties?.["spec"]?.properties ?? {};
  const isFirst = plural === KUBEFLOW[0];
  const fields = isFirst ? { ...others, runPolicy: runPolicy ?? {} } : others;
  const written = { ...schema, properties: { spec: { ...schema.properties?.["spec"], properties: fields } } };
  const header = `It has the \`apiVersion\` kubeflow.org/v1, and the label and annotations of a [Job](#job). `;
  const shared = isFirst ? "" : "It also has the `spec.runPolicy` of a [TFJob](#tfjob). ";
  return section(kind, written, `${header}${shared}Guide: [Kubeflow's jobs under Muster](../kubeflow.md).`);
}

function dataSection({ if: condition, then }: { readonly if?: Schema; readonly then?: Schema }): string {
  const type = String(condition?.properties?.["type"]?.const);
  const data = then?.properties?.["data"] ?? {};
  const title = `### Lease of type ${type}\n`;
  return data.properties === undefined
    ? `${title}\n${data.description ?? ""}\n`
    : `${title}\n${table(data, "spec.data")}`;
}

function section(title: string, schema: Schema, note: string): string {
  return `${heading(title, `${schema.description ?? ""} ${note}`)}\n${table(schema)}`;
}

function heading(title: string, text: string): string {
  return `## ${title}\n\n${wrap(text)}\n`;
}

/** Breaks the paragraph at the width of all documents. */
function wrap(text: string): string {
  const lines: string[] = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line.length + word.length + 1 > 160) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.join("\n");
}

function table(schema: Schema, path = ""): string {
  const rows = buildRows(schema, path).map(
    (cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`,
  );
  return `${["| field | type | default | required | meaning |", "| --- | --- | --- | --- | --- |", ...rows].join("\n")}\n`;
}

function buildRows(schema: Schema, path: string): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const full = path === "" ? name : `${path}.${name}`;
    const isRequired = schema.required?.includes(name) === true ? "yes" : "";
    const more = CLOSED[full] === undefined ? "" : ` ${CLOSED[full]}`;
    const cells = [
      `\`${full}\``,
      describeType(field),
      formatDefault(field),
      isRequired,
      `${field.description ?? ""}${more}`,
    ];
    return [cells, ...(more === "" ? innerRows(field, full) : [])];
  });
}

function innerRows(field: Schema, path: string): string[][] {
  const { items, additionalProperties: values } = field;
  const map = typeof values === "object" ? buildRows(values, `${path}.NAME`) : [];
  return [...buildRows(field, path), ...(items === undefined ? [] : buildRows(items, `${path}[]`)), ...map];
}

function describeType(field: Schema): string {
  const { type, format, pattern, items, additionalProperties: values, minItems, maxItems, oneOf } = field;
  if (field.const !== undefined) return `\`${JSON.stringify(field.const).replaceAll('"', "")}\``;
  if (field.enum !== undefined) return field.enum.map((word) => `\`${String(word)}\``).join(", ");
  if (format === "duration" || format === "quantity" || pattern?.includes("|ms|") || pattern?.includes("(ms|"))
    return format === "quantity" ? "quantity" : "duration";
  if (field["x-kubernetes-int-or-string"] === true) return "quantity";
  if (Array.isArray(type)) return type.map((each: string) => describeType({ ...field, type: each })).join(" or ");
  if (type === "array")
    return `list of ${items === undefined ? "any" : describeType(items)}${formatSize(minItems, maxItems)}`;
  if (type === "object") return typeof values === "object" ? `map of ${describeType(values)}` : "object";
  if (type !== undefined) return `${String(type)}${formatRange(field.minimum, field.maximum)}`;
  return oneOf === undefined ? "any" : oneOf.map(describeType).join(" or ");
}

/** The largest number of a type is no limit that a reader needs. */
function formatRange(min: number | undefined, max: number | undefined): string {
  const isLimit = max !== undefined && max < 2 ** 31 - 1;
  if (min !== undefined && min >= 0 && isLimit) return `, ${min} to ${max}`;
  if (isLimit) return `, at most ${max}`;
  return min !== undefined && min >= 0 ? `, at least ${min}` : "";
}

function formatSize(min = 0, max: number | undefined): string {
  return max === undefined ? "" : ` (${min} to ${max})`;
}

function formatDefault({ default: value, format }: Schema): string {
  if (value === undefined) return "";
  if (format === "duration" && typeof value === "number") return `\`${formatDuration(value)}\``;
  if (value === "") return "empty";
  return `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
}
