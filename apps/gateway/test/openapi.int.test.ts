import { RESOURCES, buildRoutes, WATCH_PATH } from "@muster/gateway-api";
import type { AnyMessageType } from "@muster/proto";
import { services } from "@muster/proto";
import { shapes } from "@muster/proto/shapes";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayWorld, type Answers, type Gateway, type GatewayWorld } from "./gateway-world.ts";

type Schema = { readonly [keyword: string]: unknown };
type Parameter = { readonly name: string; readonly in: string; readonly schema: Schema };
type Operation = {
  readonly operationId: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >;
};
type Document = Schema & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
};

/** Builds a message with a value in every field, and in the fields of its messages. */
function sampleMessage(type: string, depth = 0): object {
  const { fields } = shapes.messages[type]!;
  const sample = (of: string): unknown => {
    if (of in shapes.enums) return Object.values(shapes.enums[of]!.numbers)[0];
    if (of === "google.protobuf.Timestamp") return { seconds: 1_767_225_600, nanos: 5 };
    if (of === "google.protobuf.Duration") return { seconds: 60, nanos: 0 };
    if (of in shapes.messages) return sampleMessage(of, depth + 1);
    return of === "string" ? "x" : of === "bool" ? true : of === "bytes" ? new Uint8Array([1]) : 7;
  };
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, field]) => depth < 8 || !(field.type in shapes.messages))
      .map(([name, field]) => {
        const value = sample(field.type);
        return [name, field.many === "list" ? [value] : field.many === "map" ? { key: value } : value];
      }),
  );
}

function sampleAnswers(): Answers {
  const methods = services.flatMap((service) => Object.entries<{ readonly reply: AnyMessageType }>(service.methods));
  return Object.fromEntries(
    methods.map(([name, { reply }]) => [name, () => sampleMessage(reply.getTypeUrl("").slice(1))]),
  );
}

let world: GatewayWorld;
let gateway: Gateway;
let document: Document;
let ajv: Ajv2020;

beforeAll(async () => {
  world = await startGatewayWorld(sampleAnswers());
  gateway = await world.start();
  const { status, json } = await gateway.ask("/openapi.json", { token: null });
  expect(status).toBe(200);
  document = json as Document;
  ajv = new Ajv2020({
    strict: true,
    allErrors: true,
    formats: {},
    schemas: [{ $id: "api", ...closed(document) }],
    keywords: OPENAPI,
  });
});

afterAll(() => world[Symbol.asyncDispose]());

/** The parts of the document beside schemas. */
const OPENAPI = ["openapi", "info", "security", "paths", "components"];

/** Closes the schemas of answers, so that undocumented fields fail the test. */
function closed(value: unknown): Schema {
  const convert = (each: unknown): unknown => {
    if (Array.isArray(each)) return each.map(convert);
    if (typeof each !== "object" || each === null) return each;
    const entries = Object.entries(each).map(([key, inner]) => [key, convert(inner)] as const);
    const object: Schema = Object.fromEntries<unknown>(entries);
    const isClosed = object["type"] === "object" && "properties" in object && !("additionalProperties" in object);
    return isClosed ? { ...object, additionalProperties: false } : object;
  };
  return convert(value) as Schema;
}

/** Builds a value that the schema allows, with every property. */
function sampleOf(schema: Schema, depth = 0): unknown {
  const reference = schema["$ref"];
  if (typeof reference === "string")
    return sampleOf(document.components.schemas[reference.split("/").at(-1) ?? ""]!, depth);
  if (Array.isArray(schema["enum"])) return schema["enum"][0] as unknown;
  const pattern = schema["pattern"];
  switch (schema["type"]) {
    case "object": {
      const properties = Object.entries((schema["properties"] ?? {}) as Readonly<Record<string, Schema>>);
      return depth > 6 ? {} : Object.fromEntries(properties.map(([name, each]) => [name, sampleOf(each, depth + 1)]));
    }
    case "array":
      return depth > 6 ? [] : [sampleOf(schema["items"] as Schema, depth + 1)];
    case "boolean":
      return true;
    case "integer":
      return 1;
    default:
      if (schema["contentEncoding"] === "base64") return "AQ==";
      return typeof pattern === "string" ? (pattern.endsWith("s$") ? "60s" : "2026-01-31T12:00:00Z") : "x";
  }
}

/** Each of these has its own test, because this test cannot read endless streams. */
const STREAMS = ["watch", "follow"];

function pathWith(path: string, { parameters }: Operation): string {
  const query = parameters.filter((each) => each.in === "query" && !STREAMS.includes(each.name));
  const search = new URLSearchParams(
    query.map(({ name, schema }): [string, string] => [name, String(sampleOf(schema))]),
  );
  return `${path.replaceAll(/\{\w+\}/g, "x")}${search.size > 0 ? `?${search.toString()}` : ""}`;
}

function expectValid(schema: Schema, value: unknown, what: string): void {
  const pointed = JSON.parse(JSON.stringify(closed(schema)).replaceAll('"#/', '"api#/')) as Schema;
  const validate = ajv.compile(pointed);
  expect(validate(value) ? [] : validate.errors, what).toEqual([]);
}

it("has the version 3.1 of OpenAPI", () => {
  expect(document["openapi"]).toMatch(/^3\.1\.\d+$/);
});

it("documents exactly the methods of every path", () => {
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const served = buildRoutes(RESOURCES).map(({ http, path }) => `${http} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
  expect(documented.toSorted()).toEqual([...served, `GET ${WATCH_PATH}`].toSorted());
});

it("has an id for each operation, and no unresolved reference", () => {
  const ids = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map((each) => each.operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
  const references = JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g);
  for (const [, name = ""] of references) expect(document.components.schemas, name).toHaveProperty([name]);
});

it("answers every documented request as documented, except streams, which have their own tests", async () => {
  const streams: string[] = [];
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const body = operation.requestBody?.content["application/json"]?.schema;
      const what = `${method} ${pathWith(path, operation)}`;
      const isStream = operation.responses["200"]?.content?.["application/json"] === undefined;
      if (isStream) {
        streams.push(`${method.toUpperCase()} ${path}`);
        continue;
      }
      const { status, json, text } = await gateway.ask(pathWith(path, operation), {
        method: method.toUpperCase() as "GET",
        ...(body !== undefined && { body: sampleOf(body) }),
      });
      expect(status, `${what}: ${text}`).toBe(200);
      expectValid(operation.responses["200"]!.content!["application/json"]!.schema, json, what);
    }
  expect(streams.toSorted()).toEqual([
    "GET /v1/jobs/{namespace}/{name}/logs/{component}",
    "GET /v1/sessions/{name}/logs/{component}",
    "GET /v1/watch",
  ]);
});

it("accepts an Idempotency-Key on every request that creates, and documents it on no other", async () => {
  const creating: string[] = [];
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      if (!operation.parameters.some(({ name }) => name === "Idempotency-Key")) continue;
      const what = `${method.toUpperCase()} ${path}`;
      creating.push(what);
      const body = sampleOf(operation.requestBody!.content["application/json"]!.schema);
      const headers = { "idempotency-key": path };
      const create = () => gateway.ask(pathWith(path, operation), { method: "POST", body, headers });
      world.received.length = 0;
      const answers = [await create(), await create()];
      expect([what, ...answers.map(({ status }) => status)]).toEqual([what, 200, 200]);
      expect(world.received.length, what).toBe(1);
    }
  expect(creating.toSorted()).toEqual([
    "POST /v1/jobs/{namespace}",
    "POST /v1/leases",
    "POST /v1/replica-sets",
    "POST /v1/rolls",
    "POST /v1/sessions",
  ]);
});

it("answers every failing documented request with the documented problem", async () => {
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const asked = `${pathWith(path, { ...operation, parameters: [] })}?unknown=1`;
      const { status, headers, json } = await gateway.ask(asked, {
        method: method.toUpperCase() as "GET",
        ...(operation.requestBody !== undefined && { body: {} }),
      });
      expect([status, headers["content-type"]], asked).toEqual([400, "application/problem+json"]);
      expectValid(operation.responses["default"]!.content!["application/problem+json"]!.schema, json, asked);
    }
});
