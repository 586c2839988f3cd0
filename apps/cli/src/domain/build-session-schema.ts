import { formatDuration } from "@muster/faults";
import { MAX_ACCEPTED_POOLS } from "@muster/resources";
import {
  COMPONENT_TEMPLATE_SCHEMA,
  MAX_POD_NAME_LENGTH,
  SESSION_DEFAULTS,
  SESSION_LIMITS,
} from "@muster/session-limits";
import { GENERATED_LENGTH } from "./read-name.ts";
import { buildClosedSchema, type Schema } from "./json-schema.ts";
import { API_VERSION, COMPONENT_KINDS } from "./session-document.ts";

const DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?";
const LABEL_VALUE = `^${LABEL_NAME}$`;
const POOL_NAME = { pattern: LABEL_VALUE, maxLength: 63 };
const LABEL_KEY = `^([a-z0-9.-]+/)?${LABEL_NAME}$`;
/** A DNS name, a slash and a name. */
const MAX_LABEL_KEY = 253 + 1 + 63;
const CONFIGURABLE = "The session controller may be configured with another default.";
const DURATION = "^(\\d+(\\.\\d+)?(ms|d|h|m|s))+$";

/**
 * Builds the JSON Schema (2020-12) of a Session document, with which editors complete fields and mark errors. It accepts every document that the command
 * accepts. Only the command checks what a schema cannot express: one driver, unique names, total size, the range of a duration.
 */
export function buildSessionSchema(): Schema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Muster session",
    description: "A finite test of several roles, each component on a machine of its own, or on a part of one.",
    ...buildClosedSchema(["apiVersion", "kind", "metadata", "spec"], {
      apiVersion: { const: API_VERSION },
      kind: { const: "Session" },
      metadata: metadata(),
      spec: spec(),
    }),
  };
}

/** The fields of a spec and of a component, in the order used in messages. */
export const SPEC_FIELDS = Object.keys(spec().properties ?? {});
export const COMPONENT_FIELDS = Object.keys(component().properties ?? {});

/** The line length of the repository's formatter. */
const MAX_LINE = 120;

/** Formats the schema as a file: a list of words takes one line if it fits, everything else one line per part. */
export function writeSchema(schema: Schema): string {
  return `${writeJson(schema, "")}\n`;
}

function writeJson(value: unknown, indent: string, key = ""): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const list = Array.isArray(value);
  if (list && value.every((item) => typeof item !== "object")) {
    const words = `[${value.map((item) => JSON.stringify(item)).join(", ")}]`;
    if (`${indent}${key}${words},`.length <= MAX_LINE) return words;
  }
  const deeper = `${indent}  `;
  const parts = list
    ? value.map((item) => writeJson(item, deeper))
    : Object.entries(value).map(([name, item]) => {
        const before = `${JSON.stringify(name)}: `;
        return before + writeJson(item, deeper, before);
      });
  const [open, close] = list ? "[]" : "{}";
  if (parts.length === 0) return list ? "[]" : "{}";
  return `${open}\n${parts.map((part) => deeper + part).join(",\n")}\n${indent}${close}`;
}

function metadata(): Schema {
  const maxPrefixLength = MAX_POD_NAME_LENGTH - GENERATED_LENGTH;
  return {
    description: "Either name or generateName.",
    oneOf: [{ required: ["name"] }, { required: ["generateName"] }],
    ...buildClosedSchema([], {
      name: { ...label("Name of the session; a DNS label."), maxLength: MAX_POD_NAME_LENGTH },
      generateName: {
        type: "string",
        maxLength: maxPrefixLength,
        pattern: "^([a-z0-9][-a-z0-9]*)?$",
        description: `Beginning of the name; ${GENERATED_LENGTH} random letters are added.`,
      },
    }),
  };
}

function spec() {
  const { timeoutMs, queueTimeoutMs, ttlMs, killAfterMs } = SESSION_LIMITS;
  const usual = SESSION_DEFAULTS;
  return buildClosedSchema(["components"], {
    components: {
      type: "array",
      minItems: 1,
      maxItems: SESSION_LIMITS.components,
      description: "Exactly one driver, and the workers that it drives.",
      items: component(),
    },
    scenario: { description: "Any data; the driver receives it as JSON in SCENARIO_JSON." },
    timeout: duration("Time for provisioning and running together.", timeoutMs, usual.timeoutMs),
    queueTimeout: duration("Time in the queue.", queueTimeoutMs, usual.queueTimeoutMs),
    ttl: duration("How long the finished session and its logs are kept.", ttlMs, usual.ttlMs),
    killAfter: duration("Time between SIGTERM and SIGKILL for each pod.", killAfterMs, usual.killAfterMs),
    priority: { ...integer("Higher goes first.", -(2 ** 31), 2 ** 31 - 1), default: 0 },
    queue: {
      type: "string",
      minLength: 1,
      maxLength: 253,
      description: "The queue whose quota its machines use. Default: that of the namespace, if queues exist.",
    },
    topology: {
      type: "string",
      pattern: LABEL_KEY,
      maxLength: MAX_LABEL_KEY,
      description:
        "A label of nodes, such as topology.kubernetes.io/zone. All machines of the session are nodes with the same value of it.",
    },
    workerPort: {
      ...integer(`Port on which workers are driven. ${CONFIGURABLE}`, 1, 65_535),
      default: usual.workerPort,
    },
  });
}

function component() {
  return {
    anyOf: [{ required: ["image"] }, { required: ["command"] }],
    ...buildClosedSchema(["name", "kind", "pool"], {
      name: label("Name of the component, unique in the session."),
      kind: { enum: COMPONENT_KINDS, description: "The driver decides the result; workers are servers and clients." },
      pool: {
        type: ["string", "array"],
        ...POOL_NAME,
        items: { type: "string", ...POOL_NAME },
        minItems: 1,
        maxItems: MAX_ACCEPTED_POOLS,
        uniqueItems: true,
        description: "The pool that its machine comes from, or several in order of preference.",
      },
      image: {
        type: "string",
        pattern: "^\\S+$",
        description: "Container image; without it the service's default image runs the command.",
      },
      command: texts("Program and first arguments, instead of the image's entrypoint."),
      args: texts("Arguments."),
      env: {
        type: "array",
        description: "Environment variables.",
        items: buildClosedSchema(["name"], {
          name: { type: "string", pattern: "^[A-Za-z_][A-Za-z0-9_]*$", description: "Name of the variable." },
          value: { type: "string", description: "Text; numbers and booleans need quotes." },
        }),
      },
      workingDir: { type: "string", pattern: "^/", description: "Absolute path." },
      readyPort: integer("The component is ready when this TCP port answers; without it, when it runs.", 1, 65_535),
      replicas: integer(
        "Number of components, named NAME-0, NAME-1 and so on; without it one, named NAME.",
        1,
        SESSION_LIMITS.components,
      ),
      template: COMPONENT_TEMPLATE_SCHEMA,
      shared: {
        type: "boolean",
        default: false,
        description: "True: the pod gets a part of a machine, what its template requests; otherwise a whole machine.",
      },
    }),
  };
}

function label(description: string): Schema {
  return { type: "string", pattern: DNS_LABEL, maxLength: 63, description };
}

function texts(description: string): Schema {
  return { type: "array", items: { type: "string" }, description };
}

function integer(description: string, minimum: number, maximum: number): Schema {
  return { type: "integer", minimum, maximum, description };
}

function duration(
  what: string,
  { min, max }: { readonly min: number; readonly max: number },
  fallbackMs: number,
): Schema {
  const range = `From ${formatDuration(min)} to ${formatDuration(max)}, such as 90s or 1h30m.`;
  const description = `${what} ${range} ${CONFIGURABLE}`;
  return { type: "string", pattern: DURATION, maxLength: 64, default: formatDuration(fallbackMs), description };
}
