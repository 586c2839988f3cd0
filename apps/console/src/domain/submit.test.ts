import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SCHEMAS } from "../adapters/schemas.ts";
import { buildRequest } from "./build-request.ts";
import { readDocuments } from "./read-documents.ts";

const CONTEXT = { namespace: "default", suffix: "abcde" };
const EXAMPLES = join(import.meta.dirname, "../../../../examples");
const example = (name: string): string => readFileSync(join(EXAMPLES, name), "utf8");
const read = (text: string) => readDocuments(text, SCHEMAS);

const SESSION = `apiVersion: muster.dev/v1
kind: Session
metadata:
  name: echo
spec:
  timeout: 90s
  scenario: { seconds: 5 }
  components:
    - { name: driver, kind: driver, pool: drivers, image: "node:24" }
    - { name: server, kind: server, pool: workers, command: [node], replicas: 2, template: { spec: {} } }
`;

it.each(["http-benchmark.yaml", "training-job.yaml", "pinned-replica-set.yaml", "tfjob.yaml", "shared-benchmark.yaml"])(
  "finds nothing wrong with the example %s, and can send it",
  (name) => {
    const documents = read(example(name));
    expect(documents.flatMap(({ findings }) => findings)).toEqual([]);
    for (const document of documents) expect(buildRequest(document, CONTEXT)).toHaveProperty("request");
  },
);

it.each<[title: string, text: string, findings: readonly string[]]>([
  ["nothing", "", []],
  ["text that is no mapping", "hello", ["1:1 a mapping is needed"]],
  ["a document without a kind", "a: 1", ["1:1 lacks kind"]],
  [
    "wrong YAML",
    "kind: Session\nspec: [1",
    ["2:9 not valid YAML: Flow sequence in block collection must be sufficiently indented and end with a ]"],
  ],
  [
    "an unknown field, where it stands",
    SESSION.replace("timeout: 90s", "timeuot: 90s"),
    ["6:3 spec.timeuot is an unknown field"],
  ],
  [
    "a value that does not match its pattern, with the meaning of the field",
    SESSION.replace("name: echo", "name: Echo_A"),
    ['4:3 metadata.name: "Echo_A" does not match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$. Name of the session; a DNS label.'],
  ],
  ["a missing field, at its mapping", SESSION.replace(", pool: drivers", ""), ["9:7 spec.components[0] lacks pool"]],
  [
    "a pool that is named twice",
    SESSION.replace("drivers", "[a, b, a]"),
    ["9:37 spec.components[0].pool: Duplicate items at indexes 0 and 2."],
  ],
  [
    "alternatives that are all missing",
    SESSION.replace("name: echo", "labels: {}"),
    ["3:1 metadata lacks one of name, generateName", "4:3 metadata.labels is an unknown field"],
  ],
  [
    "too many aliases",
    "kind: &a [x]\nmetadata: *b",
    ["1:1 Unresolved alias (the anchor must be set before the alias): b"],
  ],
])("reports %s", (_, text, findings) => {
  const found = read(text).flatMap((document) => document.findings);
  expect(found.map(({ line, column, message }) => `${line}:${column} ${message}`)).toEqual(findings);
});

it("sends a session as the service reads it", () => {
  const [document] = read(SESSION);
  expect(buildRequest(document!, CONTEXT)).toEqual({
    request: {
      path: "/v1/sessions",
      planPath: "/v1/plan/sessions",
      page: { kind: "session", id: "echo" },
      body: {
        name: "echo",
        spec: {
          timeoutMs: 90_000,
          scenarioJson: '{"seconds":5}',
          components: [
            { name: "driver", kind: "DRIVER", pool: "drivers", image: "node:24" },
            { name: "server-0", kind: "SERVER", pool: "workers", command: ["node"], templateJson: '{"spec":{}}' },
            { name: "server-1", kind: "SERVER", pool: "workers", command: ["node"], templateJson: '{"spec":{}}' },
          ],
        },
      },
    },
  });
});

it("sends the pools of a component in order of preference", () => {
  const [document] = read(SESSION.replace("drivers", "[h100, a100]").replace("workers", "[a100]"));
  expect(document!.findings).toEqual([]);
  expect(buildRequest(document!, CONTEXT)).toMatchObject({
    request: {
      body: { spec: { components: [{ pool: "h100", otherPools: ["a100"] }, { pool: "a100" }, { pool: "a100" }] } },
    },
  });
});

it("sends every field of the schema of a session", () => {
  const fields =
    "priority: 3\n  queue: research\n  topology: rack\n  queueTimeout: 1h\n  ttl: 2h\n  killAfter: 5s\n  workerPort: 9000";
  const [document] = read(SESSION.replace("timeout: 90s", `timeout: 90s\n  ${fields}`));
  const { properties } = (SCHEMAS["Session"] as { properties: { spec: { properties: object } } }).properties.spec;
  expect(Object.keys((document!.value as { spec: object }).spec).toSorted()).toEqual(
    Object.keys(properties).toSorted(),
  );
  expect(buildRequest(document!, CONTEXT)).toMatchObject({
    request: {
      body: {
        spec: {
          ...{
            priority: 3,
            queue: "research",
            topology: "rack",
            timeoutMs: 90_000,
            queueTimeoutMs: 3_600_000,
            ttlMs: 7_200_000,
          },
          ...{ killAfterMs: 5000, workerPort: 9000, scenarioJson: '{"seconds":5}' },
        },
      },
    },
  });
});

it("completes a generated name", () => {
  const [document] = read(SESSION.replace("name: echo", "generateName: echo-"));
  expect(buildRequest(document!, CONTEXT)).toMatchObject({ request: { body: { name: "echo-abcde" } } });
});

it("sends a job to its namespace, and to that of the controller without one", () => {
  const job = (metadata: string) => read(`kind: TFJob\nmetadata: ${metadata}`)[0]!;
  expect(buildRequest(job("{ name: a, namespace: team }"), CONTEXT)).toMatchObject({
    request: { path: "/v1/jobs/team" },
  });
  expect(buildRequest(job("{ name: a }"), CONTEXT)).toMatchObject({ request: { path: "/v1/jobs/default" } });
});

it.each([
  ["Lease", /signed/],
  ["Deployment", /no session, job or replica set/],
  // The job-controller reserves machines for JobSets, and does not create them.
  ["JobSet", /use kubectl apply/],
])("does not send a %s", (kind, because) => {
  const [document] = read(`kind: ${kind}\nmetadata: { name: a }`);
  expect(buildRequest(document!, CONTEXT)).toEqual({ refusal: expect.stringMatching(because) as string });
});

it.each([
  ["Session", true],
  ["Job", true],
  ["TFJob", false],
])("knows whether a %s is checked against a schema: %s", (kind, hasSchema) => {
  expect(read(`kind: ${kind}\nmetadata: { name: a }`)).toMatchObject([{ kind, hasSchema }]);
});

it("completes the generated name of a job", () => {
  const [document] = read("kind: TFJob\nmetadata: { generateName: train-, labels: { a: b } }");
  expect(buildRequest(document!, CONTEXT)).toMatchObject({
    request: {
      body: { kind: "TFJob", metadata: { name: "train-abcde", labels: { a: "b" } } },
      page: { id: "default/train-abcde" },
    },
  });
});

it("does not send a session whose pods would have too long names", () => {
  const [document] = read(SESSION.replace("name: echo", `name: ${"x".repeat(58)}`));
  expect(buildRequest(document!, CONTEXT)).toEqual({
    refusal: `the pod ${"x".repeat(58)}-driver would have 65 characters; 63 are allowed`,
  });
});
