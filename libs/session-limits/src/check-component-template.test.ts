import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeValueReader, type CheckedSchema } from "@muster/documents";
import { describe, expect, it } from "vitest";
import { checkComponentTemplate } from "./check-component-template.ts";
import { COMPONENT_TEMPLATE_SCHEMA } from "./component-template.ts";

const VOLUMES = [{ name: "data", emptyDir: {} }];

/** The findings in a template of a component that sets LEVEL itself. */
function findings(template: unknown): string[] {
  const reader = makeValueReader();
  const read = checkComponentTemplate(reader, [], template, [{ name: "LEVEL" }]);
  expect(read).toBe(reader.findings.length === 0 ? template : undefined);
  return reader.findings.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

const main = (fields: object): unknown => ({ spec: { containers: [{ name: "main", ...fields }] } });

const affinity = (term: object): unknown => ({
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] } },
});

const TERM = "spec\\.affinity\\.nodeAffinity\\.requiredDuringSchedulingIgnoredDuringExecution\\.nodeSelectorTerms\\.0";

describe("a template that a benchmark needs", () => {
  it.each<[string, unknown]>([
    ["nothing", { spec: {} }],
    ["resources", main({ resources: { requests: { cpu: 2, memory: "4Gi" }, limits: { "nvidia.com/gpu": "1" } } })],
    [
      "a secret as a variable",
      main({ env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }] }),
    ],
    ["a ConfigMap as variables", main({ envFrom: [{ prefix: "P_", configMapRef: { name: "c", optional: true } }] })],
    ["a security context", main({ securityContext: { runAsUser: 1000, capabilities: { drop: ["ALL"] } } })],
    [
      "a volume that an init container fills",
      {
        spec: {
          volumes: VOLUMES,
          initContainers: [{ name: "fill", image: "i", volumeMounts: [{ name: "data", mountPath: "/data" }] }],
          containers: [{ name: "main", volumeMounts: [{ name: "data", mountPath: "/data", readOnly: true }] }],
        },
      },
    ],
    [
      "volumes of every kind",
      {
        spec: {
          volumes: [
            { name: "scratch", emptyDir: { medium: "Memory", sizeLimit: "1Gi" } },
            { name: "config", configMap: { name: "c", items: [{ key: "k", path: "p", mode: 0o400 }] } },
            { name: "secret", secret: { secretName: "s", defaultMode: 0o400 } },
            { name: "claim", persistentVolumeClaim: { claimName: "p", readOnly: true } },
            { name: "labels", downwardAPI: { items: [{ path: "l", fieldRef: { fieldPath: "metadata.labels" } }] } },
            { name: "all", projected: { sources: [{ secret: { name: "s" } }, { configMap: { name: "c" } }] } },
          ],
        },
      },
    ],
    [
      "fields of the pod",
      {
        metadata: { labels: { team: "a" }, annotations: { "example.com/note": "any text at all" } },
        spec: {
          imagePullSecrets: [{ name: "registry" }],
          priorityClassName: "high",
          runtimeClassName: "nvidia",
          securityContext: { fsGroup: 1000, sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "0" }] },
          tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule", tolerationSeconds: 60 }],
        },
      },
    ],
    [
      "the nodes that it accepts",
      {
        spec: {
          nodeSelector: { disk: "ssd" },
          affinity: affinity({
            matchExpressions: [
              { key: "zone", operator: "In", values: ["a", "b"] },
              { key: "gpu", operator: "Exists" },
              { key: "cores", operator: "Gt", values: ["8"] },
            ],
            matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["worker-3"] }],
          }),
        },
      },
    ],
  ])("may have %s", (_title, template) => {
    expect(findings(template)).toEqual([]);
  });
});

describe("a template is refused", () => {
  it.each<[string, unknown, readonly (string | RegExp)[]]>([
    ["that is a list", [], [": must be a mapping, not a list"]],
    ["without a spec", {}, [": lacks spec"]],
    [
      "with an unknown field of the pod",
      { spec: { volume: [] } },
      [/^spec\.volume: unknown field "volume"; did you mean "volumes"\?$/],
    ],
    [
      "with an unknown field far down",
      main({ resources: { limit: {} } }),
      ['spec.containers.0.resources.limit: unknown field "limit"; did you mean "limits"?'],
    ],
    [
      "with a volume of the node",
      { spec: { volumes: [{ name: "a", hostPath: { path: "/" } }] } },
      [/unknown field "hostPath"/],
    ],
    ["in the network of the node", { spec: { hostNetwork: true } }, [/unknown field "hostNetwork"/]],
    [
      "that names a node",
      { spec: { nodeName: "n1" } },
      ['spec.nodeName: cannot be the string "n1": the pod runs on the machine that the component\'s pool grants'],
    ],
    [
      "with another restart policy",
      { spec: { restartPolicy: "Always" } },
      [/^spec\.restartPolicy: cannot be the string "Always": a component runs once/],
    ],
    ["with a host name", { spec: { hostname: "h" } }, [/^spec\.hostname: cannot be the string "h"/]],
    [
      "with an image of the main container",
      main({ image: "i" }),
      [/image: cannot be the string "i": write it as the component's image$/],
    ],
    ["with ports", main({ ports: [] }), [/ports: cannot be a list: the container opens spec\.workerPort/]],
    [
      "with a capability that gives the node away",
      main({ securityContext: { capabilities: { add: ["SYS_ADMIN"] } } }),
      [/capabilities\.add\.0: must be one of AUDIT_WRITE, .*, not the string "SYS_ADMIN"$/],
    ],
    [
      "without a seccomp profile",
      main({ securityContext: { seccompProfile: { type: "Unconfined" } } }),
      [/seccompProfile\.type: must be one of RuntimeDefault, Localhost, not the string "Unconfined"/],
    ],
    [
      "with a setting of the node's kernel",
      { spec: { securityContext: { sysctls: [{ name: "kernel.msgmax", value: "1" }] } } },
      [/sysctls\.0\.name: must be one of/],
    ],
    [
      "without AppArmor",
      { metadata: { annotations: { "container.apparmor.security.beta.kubernetes.io/main": "unconfined" } }, spec: {} },
      [/pods of sessions keep the AppArmor profile of the cluster/],
    ],
    [
      "with the labels of a job's pod",
      { metadata: { labels: { "training.kubeflow.org/job-name": "train" } }, spec: {} },
      [/names a pod of a job/],
    ],
    [
      "with another service account",
      { spec: { serviceAccountName: "admin" } },
      [/serviceAccountName: cannot be the string "admin": pods of sessions have no access to Kubernetes/],
    ],
    [
      "with a value of an inherited name that is none",
      { metadata: { labels: { constructor: 5 } }, spec: {} },
      [/labels\.constructor/],
    ],
    ["with privileges", main({ securityContext: { privileged: true } }), [/privileged: cannot be the boolean true/]],
    [
      "with a token",
      { spec: { volumes: [{ name: "t", projected: { sources: [{ serviceAccountToken: {} }] } }] } },
      [/serviceAccountToken: cannot be a mapping: pods of sessions have no token/],
    ],
    [
      "with another container",
      { spec: { containers: [{ name: "side" }] } },
      [/containers\.0\.name: must be one of main, not the string "side"/],
    ],
    [
      "with two containers",
      { spec: { containers: [{ name: "main" }, { name: "main" }] } },
      ["spec.containers: has 2; 1 at most"],
    ],
    [
      "with an init container of the name of the main one",
      { spec: { initContainers: [{ name: "main", image: "i" }] } },
      [/initContainers\.0\.name: "main" is the name of two/],
    ],
    [
      "with an amount that is none",
      main({ resources: { limits: { cpu: "two" } } }),
      [/limits\.cpu: must be a quantity such as 500m, 2 or 4Gi, not the string "two"/],
    ],
    [
      "with a mode in decimal digits",
      { spec: { volumes: [{ name: "a", secret: { secretName: "s", defaultMode: 644 } }] } },
      [/defaultMode: must be a whole number from 0 to 511/],
    ],
    [
      "with a volume of no kind",
      { spec: { volumes: [{ name: "a" }] } },
      [/^spec\.volumes\.0: needs exactly one of emptyDir, .*, and has none$/],
    ],
    [
      "with a volume of two kinds",
      { spec: { volumes: [{ name: "a", emptyDir: {}, configMap: { name: "c" } }] } },
      [/and has emptyDir and configMap$/],
    ],
    [
      "with two volumes of one name",
      { spec: { volumes: [...VOLUMES, ...VOLUMES] } },
      ['spec.volumes.1.name: "data" is the name of two of them'],
    ],
    [
      "with a mount of no volume",
      main({ volumeMounts: [{ name: "d", mountPath: "/d" }] }),
      ['spec.containers.0.volumeMounts.0.name: "d" is no volume of the template; the template has no volumes'],
    ],
    [
      "with a variable of Muster",
      main({ env: [{ name: "POD_IP", value: "" }] }),
      [/env\.0\.name: "POD_IP" is set by the session controller/],
    ],
    [
      "with a variable of the component",
      main({ env: [{ name: "LEVEL", value: "1" }] }),
      [/env\.0\.name: "LEVEL" is also in the component's env/],
    ],
    [
      "with a variable that is set twice",
      main({ env: [{ name: "A" }, { name: "A" }] }),
      [/env\.1\.name: "A" is set twice/],
    ],
    [
      "with a variable of two values",
      main({ env: [{ name: "A", value: "", valueFrom: { fieldRef: { fieldPath: "p" } } }] }),
      [/env\.0: has value and valueFrom/],
    ],
    [
      "with a variable from nowhere",
      main({ env: [{ name: "A", valueFrom: {} }] }),
      [/valueFrom: needs exactly one of .*, and has none/],
    ],
    ["with a zero character", main({ env: [{ name: "A", value: "a\0" }] }), [/value: holds a zero character/]],
    [
      "with a label of Muster",
      { metadata: { labels: { "muster.dev/owner": "x" } }, spec: {} },
      [/^metadata\.labels\.muster\.dev\/owner: cannot be "x": Muster sets muster\.dev\/\*/],
    ],
    [
      "with a label that is none",
      { metadata: { labels: { a: "b c" } }, spec: {} },
      [/^metadata\.labels\.a: "b c" is not a label value/],
    ],
    [
      "with affinity to pods, or preferences that the ledger does not know",
      {
        spec: { affinity: { podAffinity: {}, nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } } },
      },
      [/^spec\.affinity\.podAffinity: cannot be/, /\.preferred\w+: cannot be a list: .* only required node affinity/],
    ],
    [
      "with a label that no node has",
      { spec: { nodeSelector: { disk: "a b" } } },
      [/^spec\.nodeSelector\.disk: "a b" is/],
    ],
    [
      "with a term that accepts no node",
      { spec: { affinity: affinity({}) } },
      [new RegExp(`^${TERM}: accepts no node`)],
    ],
    [
      "with requirements that the API server refuses",
      {
        spec: {
          affinity: affinity({
            matchExpressions: [
              { key: "a", operator: "In" },
              { key: "b", operator: "Exists", values: ["x"] },
              { key: "c", operator: "Lt", values: ["many"] },
            ],
            matchFields: [{ key: "spec.podCIDR", operator: "In", values: ["x"] }],
          }),
        },
      },
      [
        new RegExp(`^${TERM}\\.matchExpressions\\.0: In needs values`),
        new RegExp(`^${TERM}\\.matchExpressions\\.1\\.values: must be left out with Exists`),
        new RegExp(`^${TERM}\\.matchExpressions\\.2: Lt needs one value, a whole number`),
        new RegExp(`^${TERM}\\.matchFields\\.0\\.key: is "spec.podCIDR"; the only field is metadata.name`),
      ],
    ],
    [
      "with tolerations that the API server refuses",
      {
        spec: {
          tolerations: [
            { key: "a", operator: "Exists", value: "x" },
            { operator: "Equal", value: "b" },
            { operator: "Exists", effect: "NoExecute" },
          ],
        },
      },
      [
        /^spec\.tolerations\.0\.value: is "x" with the operator Exists/,
        /^spec\.tolerations\.1: has no key; .* the operator Exists for every taint$/,
      ],
    ],
    ["with an empty list", { spec: { volumes: null } }, ["spec.volumes: must be a list, not empty"]],
  ])("%s", (_title, template, expected) => {
    const found = findings(template);
    expect(found).toHaveLength(expected.length);
    for (const [index, each] of expected.entries()) expect(found[index]).toMatch(each);
  });
});

type Api = {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Api>>;
  readonly [key: string]: unknown;
};

const API = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../tools/devcluster/schemas/kubernetes.json"), "utf8"),
) as Readonly<Record<string, Api>>;

/** The schema that another one refers to. */
function resolved(schema: Api): Api {
  const [only] = (schema["allOf"] ?? []) as readonly Api[];
  const reference = schema["$ref"] ?? only?.["$ref"];
  return typeof reference === "string" ? resolved(API[reference.replace("#/components/schemas/", "")]!) : schema;
}

it("has every field by the name, path and type of Kubernetes", () => {
  const compared: string[] = [];
  const compare = (ours: CheckedSchema, kubernetes: Api, path: string): void => {
    const theirs = resolved(kubernetes);
    compared.push(path);
    if (ours.not !== undefined) return;
    if (ours.anyOf !== undefined) {
      expect(kubernetes, path).toMatchObject({ allOf: [{ $ref: expect.stringContaining("Quantity") as string }] });
      return;
    }
    expect(ours.type ?? "string", path).toBe(theirs.type);
    for (const [name, field] of Object.entries(ours.properties ?? {})) {
      expect(Object.keys(theirs.properties ?? {}), path).toContain(name);
      compare(field, theirs.properties![name]!, `${path}.${name}`);
    }
    if (ours.items !== undefined) compare(ours.items, theirs["items"] as Api, `${path}[]`);
    const each = ours.additionalProperties;
    if (typeof each === "object" && each.anyOf === undefined)
      compare(each, theirs["additionalProperties"] as Api, `${path}.*`);
  };
  compare(COMPONENT_TEMPLATE_SCHEMA, API["io.k8s.api.core.v1.PodTemplateSpec"]!, "template");
  expect(compared.length).toBeGreaterThan(150);
});
