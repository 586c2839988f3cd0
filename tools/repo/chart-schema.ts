/**
 * `npm run chart-schema`: writes the part of deploy/helm/muster/values.schema.json about services, from their list and from the variables that their config.ts
 * reads: helm refuses a misspelt variable. It also requires every value with a default: helm refuses values of an older release (`helm upgrade --reuse-values`)
 * instead of rendering them as nothing.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { format, resolveConfig } from "prettier";
import { parse } from "yaml";
import { SERVICES, type ServiceName } from "./services.ts";

const ROOT = join(import.meta.dirname, "../..");
const FILE = join(ROOT, "deploy/helm/muster/values.schema.json");
const VALUES = join(ROOT, "deploy/helm/muster/values.yaml");

/** Variables of every service. The chart sets all other MUSTER_ variables. */
const COMMON = ["MUSTER_REQUESTS_BURST", "MUSTER_REQUESTS_PER_SECOND", "MUSTER_STOP_TIMEOUT_MS", "NODE_OPTIONS"];
/** Secrets do not belong into values, and the chart sets the engine's key. */
const SECRET = /_(KEY|KEY_FILE|TOKEN)$/;
const FROM_CHART = [
  "NODE_SCALER_FILE",
  "JOB_BATCH_JOBS",
  "JOB_NAMESPACES",
  "SESSION_NAMESPACES",
  "GATEWAY_ADDR",
  "GATEWAY_PLAIN_HTTP",
  "GATEWAY_TLS_CERT_FILE",
  // Excluded, because each replica would need the same file.
  "GATEWAY_TOKEN_FILE",
  // Kubernetes sets it.
  "KUBERNETES_SERVICE_HOST",
];

type Schema = { readonly properties: Readonly<Record<string, unknown>>; readonly $defs?: object };
type Values = { readonly [name: string]: unknown };

/** The service's own variables that values may set. */
export async function listVariables(service: ServiceName): Promise<readonly string[]> {
  const config = await readFile(join(ROOT, "apps", service, "src/config.ts"), "utf8");
  const read = [...config.matchAll(/"([A-Z]+(?:_[A-Z0-9]+)+)"/g)].map(([, name = ""]) => name);
  const own = read.filter((name) => !name.startsWith("MUSTER_") && !SECRET.test(name) && !FROM_CHART.includes(name));
  return [...new Set(own)].toSorted();
}

/** Returns the new content of values.schema.json for its current content. */
export async function buildChartSchema(current: Schema): Promise<Schema> {
  const defaults = [
    "replicas",
    "resources",
    "nodeSelector",
    "tolerations",
    "affinity",
    "priorityClassName",
    "podAnnotations",
  ];
  const shared = defaults.map((name): [string, object] => [name, { $ref: `#/properties/defaults/properties/${name}` }]);
  const services: [string, object][] = [];
  for (const service of SERVICES) {
    const variable = { $ref: "#/$defs/variable" };
    const names = [...(await listVariables(service)), ...COMMON];
    // With `propertyNames`, helm reports a misspelt variable without its name, at the path of the whole values.
    const env = {
      description: "Variables of the service. Secret ones belong into envSecret.",
      type: "object",
      properties: Object.fromEntries(names.map((name) => [name, variable])),
      patternProperties: { "^OTEL_[A-Z0-9_]+$": variable },
      additionalProperties: false,
    };
    const properties = {
      enabled: { type: "boolean" },
      ...Object.fromEntries(shared),
      env,
      envSecret: { type: "string" },
    };
    services.push([service, { type: "object", additionalProperties: false, properties }]);
  }
  const all = { type: "object", additionalProperties: false, properties: Object.fromEntries(services) };
  const values = parse(await readFile(VALUES, "utf8")) as Values;
  const given = requiring({ ...current, properties: omit(current.properties, "services") }, values);
  const properties = Object.entries({ ...current.properties, ...given.properties, services: all });
  return {
    ...given,
    $defs: { ...current.$defs, variable: { type: ["string", "integer", "boolean"] } },
    properties: Object.fromEntries(properties),
    required: Object.keys(values),
  } as Schema;
}

/** Requires every described value with a default. Maps with free names stay unchanged. */
function requiring(schema: Schema, values: Values): Schema {
  const properties = Object.entries(schema.properties).map(([name, inner]): [string, unknown] => {
    const value = values[name];
    return [name, isSchema(inner) && isValues(value) ? requiring(inner, value) : inner];
  });
  const required = Object.keys(schema.properties).filter((name) => name in values);
  return { ...schema, properties: Object.fromEntries(properties), required } as Schema;
}

function omit(values: Values, name: string): Values {
  return Object.fromEntries(Object.entries(values).filter(([each]) => each !== name));
}

function isSchema(value: unknown): value is Schema {
  return isValues(value) && isValues(value["properties"]);
}

function isValues(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

if (import.meta.main) {
  const schema = await buildChartSchema(JSON.parse(await readFile(FILE, "utf8")) as Schema);
  await writeFile(FILE, await format(JSON.stringify(schema), { ...(await resolveConfig(FILE)), filepath: FILE }));
}
