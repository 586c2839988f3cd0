import { readdirSync, readFileSync } from "node:fs";
import { MAX_DURATION_NS } from "@muster/leases";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { writeSchema } from "./build-session-schema.ts";
import { buildLeaseSchema, LEASE_TYPES } from "./lease-document.ts";
import { readLeaseDocument } from "./read-lease-document.ts";

const ROOT = new URL("../../../../", import.meta.url);
const isValid = new Ajv2020({ strict: false }).compile(buildLeaseSchema());
const CONTAINER = "{ type: container, duration: 1h, data: { image: i, capacity: { cpu: 1, memory: 1024 },";
const head = "apiVersion: muster.dev/v1\nkind: Lease\n";

function findingsOf(text: string): string[] {
  const read = readLeaseDocument(parse(text));
  return read.ok ? [] : read.findings.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

it("publishes exactly the schema in the repository", () => {
  // `muster schema Lease > schemas/lease.schema.json` updates the file.
  expect(readFileSync(new URL("schemas/lease.schema.json", ROOT), "utf8")).toBe(writeSchema(buildLeaseSchema()));
});

it("reads an example of each type, and every lease that docs/leases.md shows", () => {
  const examples = new URL("examples/leases/", ROOT);
  expect(readdirSync(examples).sort()).toEqual(LEASE_TYPES.map((type) => `${type}.yaml`).sort());
  const documents = LEASE_TYPES.map((type) => readFileSync(new URL(`${type}.yaml`, examples), "utf8"));
  const page = readFileSync(new URL("docs/leases.md", ROOT), "utf8");
  documents.push(...[...page.matchAll(/```yaml\n([^]*?)```/g)].map(([, text = ""]) => text));
  expect(documents.length).toBeGreaterThan(LEASE_TYPES.length);
  for (const text of documents) {
    expect(findingsOf(text)).toEqual([]);
    expect(isValid(parse(text))).toBe(true);
  }
});

it("reads a document, and data of any form with debug", () => {
  const text = `${head}metadata: { name: 12-3 }
spec: { engine: two, type: debug, duration: 1d12h, data: [1, { a: b }], reference: 12-2 }`;
  expect(readLeaseDocument(parse(text))).toEqual({
    ok: true,
    value: {
      id: "12-3",
      engine: "two",
      type: "debug",
      durationNs: 129_600_000_000_000n,
      data: '[1,{"a":"b"}]',
      reference: "12-2",
    },
  });
  expect(readLeaseDocument(parse(`${head}spec: { type: debug, duration: forever }`))).toEqual({
    ok: true,
    value: {
      id: undefined,
      engine: "main",
      type: "debug",
      durationNs: MAX_DURATION_NS,
      data: "null",
      reference: undefined,
    },
  });
});

it.each<[what: string, spec: string, finding: RegExp, bySchema?: boolean]>([
  ["a slip in a type", "{ type: machin, duration: 1h }", /^spec.type: .*did you mean "machine"/],
  ["no type and no duration", "{}", /^spec: lacks type$/],
  [
    "a duration without a unit",
    "{ type: debug, duration: '90' }",
    /^spec.duration: must be a duration with its unit, such as 2h/,
  ],
  ["a number as duration", "{ type: debug, duration: 90 }", /^spec.duration: must be a string/],
  ["no time at all", "{ type: debug, duration: 0s }", /^spec.duration: must be longer than zero/, false],
  ["more than 2^63 ns", "{ type: debug, duration: 106752d }", /^spec.duration: is longer than 106751d/, false],
  ["an unknown field", "{ type: debug, duration: 1h, durationn: 2h }", /^spec.durationn: unknown field/],
  ["an engine that no subject may name", "{ type: debug, duration: 1h, engine: A.b }", /^spec.engine: must have lower/],
  [
    "a reference that is no id",
    "{ type: debug, duration: 1h, reference: one }",
    /^spec.reference: NUMBER-NUMBER is needed, such as 4711-1/,
  ],
  ["machines of no pool", "{ type: machine, duration: 1h, data: { machines: 2 } }", /^spec.data.pool: is missing$/],
  [
    "no machines",
    "{ type: machine, duration: 1h, data: { pool: p, machines: 0 } }",
    /^spec.data.machines: at least 1 is needed$/,
  ],
  ["machines without data", "{ type: machine, duration: 1h }", /^spec.data: an object is needed$/],
  [
    "a slip in the data of a type",
    "{ type: container, duration: 1h, data: { image: i, capacity: { cpu: 1, memory: 2048, memorry: 2048 } } }",
    /^spec.data.capacity.memorry: unknown field "memorry"; did you mean "memory"\?$/,
  ],
  [
    "a size that is no size",
    "{ type: kubernetes, duration: 1h, data: { size: 19 } }",
    /^spec.data.size: only size 1 to 18$/,
  ],
  [
    "a disk of another kind",
    "{ type: volume, duration: 1h, data: { size: 1, type: sdd } }",
    /^spec.data.type: ssd or hdd is needed$/,
  ],
  ["a volume of a number", "{ type: volume, duration: 1h, data: 5 }", /^spec.data: an object is needed$/],
  [
    "a variable that is open and secret",
    `${CONTAINER} env: { A: x }, secret_env: { A: y } } }`,
    /^spec.data.secret_env.A: is in env, too$/,
    false,
  ],
  ["a name that no variable has", `${CONTAINER} env: { 1a: x } } }`, /^spec.data.env.1a: "1a" is not a name/, false],
  [
    "a mount beside the root",
    `${CONTAINER} mounts: [{ volume_id: 1-2, mountpoint: a }] } }`,
    /^spec.data.mounts.0.mountpoint: an absolute/,
  ],
  ["what JSON does not have", "{ type: debug, duration: 1h, data: { a: .nan } }", /^spec.data.a: cannot/, false],
  [
    "large data",
    `{ type: debug, duration: 1h, data: "${"é".repeat(33_000)}" }`,
    /^spec.data: is larger than 65536 bytes$/,
    false,
  ],
])("refuses %s", (_what, spec, finding, bySchema = true) => {
  const text = `${head}spec: ${spec}`;
  expect(findingsOf(text)[0]).toMatch(finding);
  if (bySchema) expect(isValid(parse(text))).toBe(false);
});

it("refuses invalid ids, and documents of another kind or version", () => {
  const spec = "spec: { type: debug, duration: 1h }";
  expect(findingsOf(`${head}metadata: { name: web }\n${spec}`)).toEqual([
    'metadata.name: NUMBER-NUMBER is needed, such as 4711-1, each below 2^64, and not "web"',
  ]);
  expect(findingsOf(`apiVersion: v1\nkind: Leas\n${spec}`)).toHaveLength(2);
  expect(findingsOf("- 1")).toEqual([": must be a mapping, not a list"]);
});
