/**
 * Writes schemas/kubernetes.json, from what a real kube-apiserver says about itself, and schemas/protobuf.json, from the published Go types of the same
 * release. It needs
 * KUBEBUILDER_ASSETS and the modules:
 *
 *   go mod download k8s.io/api@v0.36.1 k8s.io/apimachinery@v0.36.1 k8s.io/apiextensions-apiserver@v0.36.1
 *   npx node tools/devcluster/generate-schemas.ts "$(go env GOMODCACHE)/k8s.io" 36.1
 *
 * Both are committed, so that a build needs no Go. They hold what is reachable from the kinds that the embedded API server has; the texts are
 * Kubernetes' own (Apache-2.0).
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startKubeApiServer, findKubeAssets } from "@muster/testkit";
import { isObject, type JsonValue, type JsonObject, mapEntries, getObject, getText } from "./src/apiserver/json.ts";

const here = dirname(fileURLToPath(import.meta.url));
const [root = "", release = ""] = process.argv.slice(2);
if (root === "" || release === "") throw new Error("usage: generate-schemas.ts DIRECTORY RELEASE, for example 36.1");

const CORE = "io.k8s.api.core.v1";
const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
const RBAC = "io.k8s.api.rbac.v1";
const APPS = "io.k8s.api.apps.v1";
const EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

const DOCUMENTS = [
  "api/v1",
  "apis/apiextensions.k8s.io/v1",
  "apis/apps/v1",
  "apis/authentication.k8s.io/v1",
  "apis/authorization.k8s.io/v1",
  "apis/autoscaling/v1",
  "apis/coordination.k8s.io/v1",
  "apis/networking.k8s.io/v1",
  "apis/policy/v1",
  "apis/rbac.authorization.k8s.io/v1",
];

const ROOTS = [
  ...[
    "Binding",
    "ConfigMap",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolumeClaim",
    "Pod",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
  ].map((kind) => `${CORE}.${kind}`),
  ...["ControllerRevision", "Deployment", "ReplicaSet", "StatefulSet"].map((kind) => `${APPS}.${kind}`),
  "io.k8s.api.authentication.v1.SelfSubjectReview",
  "io.k8s.api.authentication.v1.TokenRequest",
  "io.k8s.api.authentication.v1.TokenReview",
  "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
  "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
  "io.k8s.api.authorization.v1.SubjectAccessReview",
  "io.k8s.api.autoscaling.v1.Scale",
  "io.k8s.api.coordination.v1.Lease",
  "io.k8s.api.networking.v1.NetworkPolicy",
  "io.k8s.api.policy.v1.Eviction",
  "io.k8s.api.policy.v1.PodDisruptionBudget",
  ...["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"].map((kind) => `${RBAC}.${kind}`),
  `${EXTENSIONS}.CustomResourceDefinition`,
  `${META}.DeleteOptions`,
  `${META}.ListMeta`,
  `${META}.Status`,
];

/** Folders of the Go types of each group. */
const PACKAGES: Readonly<Record<string, string>> = {
  [CORE]: `api@v0.${release}/core/v1`,
  [APPS]: `api@v0.${release}/apps/v1`,
  "io.k8s.api.authentication.v1": `api@v0.${release}/authentication/v1`,
  "io.k8s.api.authorization.v1": `api@v0.${release}/authorization/v1`,
  "io.k8s.api.autoscaling.v1": `api@v0.${release}/autoscaling/v1`,
  "io.k8s.api.coordination.v1": `api@v0.${release}/coordination/v1`,
  "io.k8s.api.networking.v1": `api@v0.${release}/networking/v1`,
  "io.k8s.api.policy.v1": `api@v0.${release}/policy/v1`,
  [RBAC]: `api@v0.${release}/rbac/v1`,
  [EXTENSIONS]: `apiextensions-apiserver@v0.${release}/pkg/apis/apiextensions/v1`,
  [META]: `apimachinery@v0.${release}/pkg/apis/meta/v1`,
};

const IMPORTS: Readonly<Record<string, string>> = {
  v1: CORE,
  corev1: CORE,
  metav1: META,
  resource: "io.k8s.apimachinery.pkg.api.resource",
  intstr: "io.k8s.apimachinery.pkg.util.intstr",
  runtime: "io.k8s.apimachinery.pkg.runtime",
  types: "io.k8s.apimachinery.pkg.types",
};

write("kubernetes.json", await readSchemas());
write("protobuf.json", readMessages());

function write(file: string, content: JsonObject): void {
  writeFileSync(join(here, "schemas", file), `${JSON.stringify(content, null, 2)}\n`);
}

async function readSchemas(): Promise<JsonObject> {
  const assets = findKubeAssets();
  if (!assets.found) throw new Error(assets.reason);
  await using server = await startKubeApiServer();
  const all: Record<string, JsonValue> = {};
  for (const document of DOCUMENTS) {
    const args = ["--kubeconfig", server.kubeconfig, "get", "--raw", `/openapi/v3/${document}`];
    const text = execFileSync(join(assets.directory, "kubectl"), args, { encoding: "utf8", maxBuffer: 1 << 26 });
    const parsed = JSON.parse(text) as JsonObject;
    Object.assign(all, getObject(parsed, "components", "schemas"));
  }
  const reached = new Set<string>();
  const visit = (name: string): void => {
    if (reached.has(name)) return;
    reached.add(name);
    for (const other of listReferences(all[name] ?? null)) visit(other);
  };
  ROOTS.forEach(visit);
  return Object.fromEntries([...reached].sort().map((name) => [name, trimmed(getObject(all, name))]));
}

/** DeleteOptions lists the versions of every group that can delete. Only the served ones matter. */
function trimmed(schema: JsonObject): JsonObject {
  return mapEntries(schema, (key, value) =>
    key === "x-kubernetes-group-version-kind" && Array.isArray(value) && value.length > 1
      ? (value as JsonValue[]).filter((one) => getText(one, "group") === "" && getText(one, "version") === "v1")
      : value,
  );
}

function listReferences(value: JsonValue): string[] {
  if (Array.isArray(value)) return (value as JsonValue[]).flatMap(listReferences);
  if (!isObject(value)) return [];
  const own = value["$ref"];
  const direct = typeof own === "string" ? [own.slice("#/components/schemas/".length)] : [];
  return [...direct, ...Object.values(value).flatMap(listReferences)];
}

type Structs = ReadonlyMap<string, string>;

/**
 * Lists the fields of each message by number: JSON name ("" for a field whose fields stand in the message itself), type, and how Go encodes it. `list`:
 * repeated; `map`: a map; `kept`: written even when zero, read from the Go types because protobuf does not carry it.
 */
function readMessages(): JsonObject {
  const groups = new Map(Object.entries(PACKAGES).map(([name, folder]) => [name, readStructs(join(root, folder))]));
  const messages: Record<string, JsonValue> = {};
  const visit = (name: string): void => {
    const dot = name.lastIndexOf(".");
    const structs = groups.get(name.slice(0, dot));
    const body = structs?.get(name.slice(dot + 1));
    if (structs === undefined || body === undefined || Object.hasOwn(messages, name)) return;
    const fields = readFields(body, name.slice(0, dot), structs);
    messages[name] = Object.fromEntries(fields.map(([number, ...field]) => [number, field]));
    for (const [, , type] of fields) visit(type);
  };
  ROOTS.forEach(visit);
  return Object.fromEntries(Object.entries(messages).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Go's declarations by name: the body of a struct, or the aliased type. */
function readStructs(folder: string): Structs {
  const files = readdirSync(folder).filter((file) => file.startsWith("types") && !file.includes("swagger"));
  const text = files.map((file) => readFileSync(join(folder, file), "utf8")).join("\n");
  const structs = [...text.matchAll(/^type (\w+) struct \{\n(.*?)^\}/gms)].map(
    ([, name = "", body = ""]) => [name, body] as const,
  );
  const others = [...text.matchAll(/^\s*(?:type )?(\w+) ((?:map|\[\]|string|int|bool|float)\S*)$/gm)].map(
    ([, name = "", type = ""]) => [name, `= ${type}`] as const,
  );
  const empty = [...text.matchAll(/^type (\w+) struct ?\{\}/gm)].map(([, name = ""]) => [name, ""] as const);
  return new Map([...others, ...empty, ...structs]);
}

type Field = [number: string, json: string, type: string, ...flags: string[]];

function readFields(body: string, group: string, structs: Structs): Field[] {
  return [...body.matchAll(/^\s*(?:\w+[^\S\n]+)?([^\s/]\S*)[^\S\n]+`([^`]*)`/gm)].flatMap(
    ([, go = "", tags = ""]): Field[] => {
      const number = /protobuf:"\w+,(\d+)/.exec(tags)?.[1];
      const json = /json:"([^"]*)"/.exec(tags)?.[1] ?? "-";
      if (number === undefined) return [];
      // Types that write their JSON themselves have names in protobuf only.
      const [name = "", ...options] = (json === "-" ? (/name=(\w+)/.exec(tags)?.[1] ?? "") : json).split(",");
      const type = go.replace("*", "");
      const kept = go.startsWith("*") || !options.some((option) => ["omitempty", "omitzero"].includes(option));
      return [[number, name, ...resolve(type, group, structs), ...(kept && name !== "" ? ["kept"] : [])]];
    },
  );
}

function resolve(go: string, group: string, structs: Structs): [type: string, ...flags: string[]] {
  if (go === "[]byte") return ["bytes"];
  if (go.startsWith("[]")) return [resolve(go.slice(2).replace("*", ""), group, structs)[0], "list"];
  const value = /^map\[\w+(?:\.\w+)?\](.*)$/.exec(go)?.[1];
  if (value !== undefined) return [resolve(value, group, structs)[0], "map"];
  if (/^(string|bool|u?int(8|32|64)?|float64)$/.test(go)) return [go];
  const [qualifier = "", name] = go.split(".");
  if (name !== undefined) {
    const other = IMPORTS[qualifier] ?? qualifier;
    if (other.endsWith(".types") || name === "Verbs") return ["string"];
    return [`${other}.${name}`];
  }
  const declared = structs.get(go);
  return declared?.startsWith("= ") === true ? resolve(declared.slice(2), group, structs) : [`${group}.${go}`];
}
