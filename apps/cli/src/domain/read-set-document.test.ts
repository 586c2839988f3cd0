import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { writeSchema } from "./build-session-schema.ts";
import { readSetDocument } from "./read-set-document.ts";
import { buildSetDocument, buildSetSchema } from "./set-document.ts";

const VALID = `
apiVersion: muster.dev/v1
kind: PinnedReplicaSet
metadata: { name: web, labels: { team: a } }
spec:
  podId: web
  replicas: 3
  nodeSelector: "zone in (a, b),disk=ssd"
  allocationStrategy: Static
  minReadySeconds: 7
  template: { spec: { containers: [{ name: main, image: i }] } }
`;
const isValid = new Ajv2020({ strict: false }).compile(buildSetSchema());

function findingsOf(text: string): string[] {
  const read = readSetDocument(parse(text));
  return read.ok ? [] : read.findings.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

it("publishes exactly the schema in the repository", () => {
  // `muster schema PinnedReplicaSet > schemas/pinned-replica-set.schema.json` updates the file.
  const file = new URL("../../../../schemas/pinned-replica-set.schema.json", import.meta.url);
  expect(readFileSync(file, "utf8")).toBe(writeSchema(buildSetSchema()));
});

it.each(["pinned-replica-set.yaml", "pinned-replica-set-roll.yaml"])("reads examples/%s", (name) => {
  expect(findingsOf(readFileSync(new URL(`../../../../examples/${name}`, import.meta.url), "utf8"))).toEqual([]);
});

it("reads a document, and writes the same document", () => {
  const read = readSetDocument(parse(VALID));
  expect(read.ok && buildSetDocument(read.value)).toEqual(parse(VALID));
  expect(isValid(parse(VALID))).toBe(true);
});

it("reads labels as a selector of all of them, and a daemon set without a number", () => {
  const text = VALID.replace(/nodeSelector: .*/, "nodeSelector: { disk: ssd, zone: a }").replace(
    "replicas: 3",
    "daemon: true",
  );
  const read = readSetDocument(parse(text));
  expect(read).toMatchObject({
    value: { spec: { nodeSelector: "disk=ssd,zone=a", daemon: true, replicas: undefined } },
  });
  expect(isValid(parse(text))).toBe(true);
});

it.each<[title: string, from: string | RegExp, to: string, finding: string | RegExp]>([
  ["a number that is not there", "replicas: 3", "", /^spec: lacks replicas \(or daemon: true\)/],
  [
    "a negative number",
    "replicas: 3",
    "replicas: -1",
    "spec.replicas: must be a whole number from 0 to 1000, not the number -1",
  ],
  ["a number as text", "replicas: 3", 'replicas: "3"', /must be a whole number/],
  [
    "a number beside daemon",
    "replicas: 3",
    "replicas: 3\n  daemon: true",
    /^spec.replicas: conflicts with daemon: true/,
  ],
  ["a pool beside a selector", "podId: web", "pool: workers", /^spec.pool: conflicts with nodeSelector/],
  ["neither of them", /nodeSelector: .*/, "", /^spec: lacks nodeSelector \(or pool\)/],
  [
    "a selector that is none",
    /nodeSelector: .*/,
    "nodeSelector: a in b",
    /^spec.nodeSelector: is no label selector: found 'b'/,
  ],
  ["a template that is not there", /template: .*/, "", /^spec: lacks template/],
  ["a template without containers", /template: .*/, "template: { spec: {} }", "spec.template.spec: lacks containers"],
  ["a container without an image", "image: i", "", "spec.template.spec.containers.0: lacks image"],
  ["a restart policy", "containers: [", "restartPolicy: Never, containers: [", /restartPolicy: must be one of Always/],
  ["an unknown field", "replicas:", "replica:", 'spec.replica: unknown field "replica"; did you mean "replicas"?'],
  [
    "what a Deployment calls its selector",
    /nodeSelector: .*/,
    "selector: {}",
    /unknown field "selector"; did you mean "nodeSelector"/,
  ],
  [
    "a strategy that is none",
    "Static",
    "static",
    'spec.allocationStrategy: must be one of Dynamic, Static, not the string "static"; did you mean "Static"?',
  ],
  ["a name that is none", "name: web", "name: Web", /^metadata.name: /],
  ["a name that is not there", "name: web, ", "", "metadata: lacks name"],
  ["a label that is none", "team: a", "team: a b", /^metadata.labels.team: /],
])("refuses %s", (_title, from, to, finding) => {
  const text = VALID.replace(from, to);
  expect(findingsOf(text)).toContainEqual(typeof finding === "string" ? finding : expect.stringMatching(finding));
});

it.each([
  undefined,
  null,
  7,
  "x",
  [],
  {},
  { spec: [] },
  { spec: { template: { spec: [] } } },
  { metadata: 1, spec: 2 },
])("reports the problem of %j, and throws nothing", (value) => {
  expect(readSetDocument(value)).toMatchObject({ ok: false });
});
