import {
  INTEGERS,
  isCreation,
  listNames,
  MAX_WATCHED_LISTS,
  getShape,
  getTypeName,
  WATCH_PATH,
  type AdditionalRight,
  type Route,
} from "@muster/gateway-api";
import type { FieldShape, MessageShape } from "@muster/proto";
import { shapes } from "@muster/proto/shapes";
import { bodyFieldsOf } from "./read-request.ts";

/** A JSON Schema of 2020-12, as in OpenAPI 3.1. */
export type Schema = { readonly [keyword: string]: unknown };

type Use = "answer" | "request";

const DESCRIPTION =
  "Times that end in Ms are milliseconds since 1970, durations in milliseconds. A list has at most 500 items: pass `continue` of an answer to read the next page.";

/** Builds the OpenAPI 3.1 document of the routes, with the comments of the messages in proto/. */
export function buildOpenApi(routes: readonly Route[], version: string): Schema {
  const schemas = new Map<string, Schema>();
  const paths = Map.groupBy(routes, ({ path }) => path.replaceAll(/:(\w+)/g, "{$1}"));
  const described = [...paths].map(([path, methods]) => [
    path,
    Object.fromEntries(methods.map((route) => [route.http.toLowerCase(), operationOf(route, schemas)])),
  ]);
  return {
    openapi: "3.1.0",
    info: { title: "Muster", version, description: DESCRIPTION },
    security: [{ bearer: [] }],
    paths: { ...Object.fromEntries(described), [WATCH_PATH]: { get: watchOperation(routes) } },
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
      schemas: { ...Object.fromEntries([...schemas].toSorted(([one], [other]) => (one < other ? -1 : 1))), Problem },
    },
  };
}

/** A problem document of RFC 9457. */
const Problem: Schema = {
  type: "object",
  required: ["type", "title", "status", "detail", "code"],
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string", description: "One line for people." },
    code: { type: "string", description: "The stable word that programs compare." },
    field: { type: "string", description: "The field of the request that is wrong." },
    retryAfterMs: { type: "integer", description: "When the same request may succeed." },
    fault: { type: "object", description: "What the service has stated.", additionalProperties: true },
  },
};

const PROBLEM = {
  description: "A problem",
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

function operationOf(route: Route, schemas: Map<string, Schema>): Schema {
  const { params, query, method, resource, right, change } = route;
  const { description, content } = answerOf(route, schemas);
  const body = change === undefined || route.http === "DELETE" ? undefined : bodyOf(route, schemas);
  const { doc } = getShape(getTypeName(method.request));
  return {
    operationId: operationIdOf(route),
    tags: [resource.path],
    summary: [
      `Needs the right to ${[right.verb, change?.alsoVerb].filter(Boolean).join(" and ")} ${[right.resource, right.subresource].filter(Boolean).join("/")}`,
      ...(change?.further ?? []).map(describeFurther),
    ].join("; "),
    ...(doc !== undefined && { description: doc }),
    parameters: [
      ...params.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
      ...Object.entries(query).map(([name, field]) => ({
        ...parameterOf(name, field),
        ...(route.requires?.includes(name) === true && { required: true }),
      })),
      ...(isCreation(route) ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(body !== undefined && { requestBody: { content: { "application/json": { schema: body } } } }),
    responses: {
      "200": { description, content },
      ...(route.http === "GET" && { "304": { description: "The version of If-None-Match is current" } }),
      default: PROBLEM,
    },
  };
}

/** Describes the operation that follows several lists over one connection. */
function watchOperation(routes: readonly Route[]): Schema {
  const names = listNames(routes);
  const pattern = `^(${names.map((name) => name.replaceAll(/\{\w+\}/g, "[^/]+")).join("|")})$`;
  return {
    operationId: "watchLists",
    tags: ["watch"],
    summary: "Needs the right to watch each list; a list without it is closed, and all without it are 403",
    parameters: [
      {
        name: "resource",
        in: "query",
        required: true,
        description: `The lists, by their paths below /v1/: ${names.join(", ")}.`,
        schema: { type: "array", items: { type: "string", pattern }, minItems: 1, maxItems: MAX_WATCHED_LISTS },
      },
      { name: "Last-Event-ID", in: "header", description: "The place in each list.", schema: { type: "string" } },
    ],
    responses: {
      "200": {
        description: "Events whose data name the list: `resource`, with an `item` or a `problem`",
        content: { "text/event-stream": { schema: { type: "string" } } },
      },
      default: PROBLEM,
    },
  };
}

function describeFurther({ verb, resource, name, with: fields, unless }: AdditionalRight): string {
  return [
    `to ${verb} ${resource}`,
    ...(name === undefined ? [] : [`named in ${name}`]),
    ...(fields === undefined ? [] : [`with ${fields.join(" or ")}`]),
    ...(unless === undefined ? [] : [`unless ${unless}`]),
  ].join(" ");
}

const IDEMPOTENCY_KEY: Schema = {
  name: "Idempotency-Key",
  in: "header",
  description: "Repeated within 24 hours with the same request: the same answer. With another request: 422.",
  schema: { type: "string", pattern: "^[\\x21-\\x7e]{1,255}$" },
};

function operationIdOf({ call, http, path, params, resource, right, answer, change }: Route): string {
  const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
  if (change?.of === "plan") return `plan${capital(call)}`;
  if (http === "PUT") return `put${capital(call)}`;
  // The name includes the action, because one method may serve several actions.
  if (change?.action === "resume") return call.replace("suspend", "resume");
  if (answer.kind === "reply" && right.subresource === "log") return `${call}Piece`;
  if (answer.kind === "part") return `${call}${capital(path.slice(path.lastIndexOf("/") + 1))}`;
  if (answer.kind === "search") return `get${capital(resource.noun)}`;
  return answer.kind === "list" && params.length > 0 ? `${call}InNamespace` : call;
}

function parameterOf(name: string, field: FieldShape): Schema {
  const { doc } = field;
  const schema =
    name === "limit" ? { type: "integer", minimum: 1, maximum: 500 } : schemaOfValue(field.type, "request");
  return { name, in: "query", ...(doc !== undefined && { description: doc }), schema };
}

function bodyOf(route: Route, schemas: Map<string, Schema>): Schema {
  if (route.change?.bodyIn !== undefined)
    return { type: "object", description: "The manifest of one job of any kind." };
  return objectOf({ fields: bodyFieldsOf(route) }, "request", schemas);
}

type Content = { readonly description: string; readonly content: Schema };

function answerOf({ answer, method }: Route, schemas: Map<string, Schema>): Content {
  const { fields } = getShape(getTypeName(method.reply));
  const of = (field: FieldShape): Schema => schemaOf(field, "answer", schemas);
  switch (answer.kind) {
    case "list": {
      const { [answer.items]: items, ...rest } = fields;
      const all = { ...(items && { items }), continue: { type: "string" }, ...rest };
      const list = { "application/json": { schema: objectOf({ fields: all }, "answer", schemas) } };
      return { description: "A page", content: { ...list, "text/event-stream": { schema: { type: "string" } } } };
    }
    case "search": {
      const { doc: _, many: __, ...item } = fields[answer.items] ?? { type: "string" };
      return { description: "The item", content: { "application/json": { schema: of(item) } } };
    }
    case "item":
      return {
        description: "The item",
        content: { "application/json": { schema: of(fields[answer.item] ?? { type: "string" }) } },
      };
    case "part": {
      const item = getShape(fields[answer.item]?.type ?? "").fields;
      const part = Object.fromEntries(Object.entries(item).filter(([name]) => answer.fields.includes(name)));
      const schema = objectOf({ fields: part }, "answer", schemas);
      return { description: "A part of the item", content: { "application/json": { schema } } };
    }
    case "reply":
      return {
        description: "The reply of the service",
        content: { "application/json": { schema: of({ type: getTypeName(method.reply) }) } },
      };
    case "log":
      return { description: "The log, as it was written", content: { "text/plain": { schema: { type: "string" } } } };
  }
}

function objectOf({ doc, fields }: MessageShape, use: Use, schemas: Map<string, Schema>): Schema {
  const isRequired = ([, { type, many, optional }]: [string, FieldShape]): boolean =>
    optional !== true && (many !== undefined || !(type in shapes.enums));
  const entries = Object.entries(fields);
  const required = use === "answer" ? entries.filter(isRequired).map(([name]) => name) : [];
  return {
    type: "object",
    ...(doc !== undefined && { description: doc }),
    properties: Object.fromEntries(entries.map(([name, field]) => [name, schemaOf(field, use, schemas)])),
    ...(required.length > 0 && { required }),
    ...(use === "request" && { additionalProperties: false }),
  };
}

function schemaOf(field: FieldShape, use: Use, schemas: Map<string, Schema>): Schema {
  const { doc, type, many } = field;
  const value =
    type in shapes.messages && !(type in TIMES) ? referenceTo(type, use, schemas) : schemaOfValue(type, use);
  const description = doc === undefined ? {} : { description: doc };
  if (many === "list") return { type: "array", items: value, ...description };
  if (many === "map") return { type: "object", additionalProperties: value, ...description };
  return { ...value, ...description };
}

/** References a schema. Answers contain every field; requests may omit any field, and may have no other fields. */
function referenceTo(type: string, use: Use, schemas: Map<string, Schema>): Schema {
  const name = use === "answer" ? type : `${type}.Input`;
  if (!schemas.has(name)) {
    // The entry is set first, because a message may contain itself.
    schemas.set(name, {});
    schemas.set(name, objectOf(getShape(type), use, schemas));
  }
  return { $ref: `#/components/schemas/${name}` };
}

const TIMES: Readonly<Record<string, Schema>> = {
  "google.protobuf.Timestamp": {
    type: "string",
    pattern: "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?Z$",
  },
  "google.protobuf.Duration": { type: "string", pattern: "^\\d{1,15}(\\.\\d{1,9})?s$" },
};

function schemaOfValue(type: string, use: Use): Schema {
  const names = shapes.enums[type];
  if (names !== undefined) return { type: "string", enum: Object.keys(names.numbers) };
  const range = INTEGERS[type];
  if (range !== undefined) return { type: "integer", minimum: range[0], maximum: range[1] };
  if (type === "bool") return { type: "boolean" };
  if (type === "double" || type === "float") return { type: "number" };
  if (type === "bytes") return { type: "string", contentEncoding: "base64" };
  if (type === "string") return { type: "string" };
  const time = TIMES[type];
  if (time === undefined) throw new Error(`${type} in a ${use} has no schema`);
  return time;
}
