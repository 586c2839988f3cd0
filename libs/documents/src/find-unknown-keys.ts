import { isMusterKey, JOB_KEYS, MUSTER_KEYS } from "@muster/names";
import { nearestName } from "./nearest-name.ts";
import { describeValue, type Path } from "./read-value.ts";

/** A key of Muster that does not exist where it stands. */
export type UnknownKey = { readonly path: Path; readonly message: string };

const FIELDS = ["labels", "annotations"] as const;

/** The unknown keys of Muster in the labels and annotations of a job of any kind and of its pod templates. They would have no effect. */
export function findUnknownKeys(job: unknown): readonly UnknownKey[] {
  const spec = child(job, "spec");
  const replicaSpecs = Object.keys(spec).filter((name) => name.toLowerCase().endsWith("replicaspecs"));
  return [
    ...keysOf(child(job, "metadata"), ["metadata"]),
    ...replicaSpecs.flatMap((name) =>
      Object.entries(child(spec, name)).flatMap(([type, replica]) =>
        keysOf(child(child(replica, "template"), "metadata"), ["spec", name, type, "template", "metadata"]),
      ),
    ),
  ];
}

function keysOf(metadata: Fields, path: Path): readonly UnknownKey[] {
  return FIELDS.flatMap((field) =>
    Object.entries(child(metadata, field))
      .filter(([key]) => isMusterKey(key) && !MUSTER_KEYS[field].includes(key))
      .map(([key, value]) => ({ path: [...path, field, key], message: describeKey(field, key, value) })),
  );
}

function describeKey(field: (typeof FIELDS)[number], key: string, value: unknown): string {
  const given = `has no effect with ${describeValue(value)}`;
  const other = FIELDS.find((each) => each !== field && MUSTER_KEYS[each].includes(key));
  if (other !== undefined) return `${given}: it belongs into ${other}`;
  const near = nearestName(key, JOB_KEYS);
  return `${given}: ${near === undefined ? `known keys are ${JOB_KEYS.join(", ")}` : `did you mean "${near}"?`}`;
}

type Fields = Readonly<Record<string, unknown>>;

/** Empty unless the value and its child are mappings. */
function child(value: unknown, name: string): Fields {
  const found = isMapping(value) ? value[name] : undefined;
  return isMapping(found) ? found : {};
}

function isMapping(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
