import type { CheckedSchema } from "@muster/documents";
import { buildDataSchema, LEASE_DATA, type LeaseType } from "@muster/leases/data";
import { buildClosedSchema, type Schema } from "./json-schema.ts";
import { API_VERSION } from "./session-document.ts";

export const LEASE_KIND = "Lease";
/** The noun for a lease in every text. */
export const LEASE_NOUN = "lease";

/** The types, in the order of the schemas of their data. */
export const LEASE_TYPES = Object.keys(LEASE_DATA) as readonly LeaseType[];

export const DEFAULT_ENGINE = "main";
export const ENGINE_PATTERN = "^[a-z0-9][a-z0-9_-]{0,62}$";
const LEASE_ID_PATTERN = "^\\d{1,20}-\\d{1,20}$";
const LEASE_ID = new RegExp(LEASE_ID_PATTERN);
/** Returns whether the text is a valid id of a lease. */
export function isLeaseId(text: string): boolean {
  return LEASE_ID.test(text);
}
const DURATION = "^(forever|(\\d{1,20}(ms|us|ns|d|h|m|s))+)$";

/** A lease as a user writes it, before it is signed. */
export type LeaseDocument = {
  /** Undefined if the command generates an id, so that each order is another lease. */
  readonly id: string | undefined;
  readonly engine: string;
  readonly type: LeaseType;
  readonly durationNs: bigint;
  /** The JSON text that is signed. */
  readonly data: string;
  readonly reference: string | undefined;
};

/** The schema of a document; the schema of its type checks its data. */
export const LEASE_FORM: CheckedSchema = buildClosedSchema(["apiVersion", "kind", "spec"], {
  apiVersion: { const: API_VERSION },
  kind: { const: LEASE_KIND },
  metadata: buildClosedSchema([], {
    name: {
      type: "string",
      pattern: LEASE_ID_PATTERN,
      description: "Id of the lease, NUMBER-NUMBER, used only once. Without it, each order creates a new lease.",
    },
  }),
  spec: buildClosedSchema(["type", "duration"], {
    engine: {
      type: "string",
      pattern: ENGINE_PATTERN,
      default: DEFAULT_ENGINE,
      description: "Id of the engine that serves the lease.",
    },
    type: { enum: LEASE_TYPES, description: "What is leased." },
    duration: {
      type: "string",
      pattern: DURATION,
      description: "Duration from the order on, such as 2h or 1d12h; forever: until the user ends it.",
    },
    data: { description: "Details of the lease; the type determines the fields." },
    reference: {
      type: "string",
      pattern: LEASE_ID_PATTERN,
      description: "Earlier lease whose workload this one takes over.",
    },
  }),
});

/** Builds the JSON Schema (2020-12) of one document, for editors. */
export function buildLeaseSchema(): Schema {
  const { properties, ...form } = LEASE_FORM;
  const allOf = LEASE_TYPES.map((type) => ({
    if: { required: ["type"], properties: { type: { const: type } } },
    then: { ...(type !== "debug" && { required: ["data"] }), properties: { data: buildDataSchema(type) } },
  }));
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Muster lease",
    description: "A workload or machines for a limited time; the order is signed by its user.",
    ...form,
    properties: { ...properties, spec: { ...properties?.["spec"], allOf } },
  };
}
