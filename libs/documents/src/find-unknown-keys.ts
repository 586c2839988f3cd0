import { isMusterKey, JOB_KEYS, JOB_LABEL_KEYS, JOB_ONLY_KEYS, MUSTER_KEYS } from "@muster/names";
import { findNearestName } from "./nearest-name.ts";
import { describeValue, type Path } from "./read-value.ts";

/** An unknown key in the muster.dev group, with its path. */
export type UnknownKey = { readonly path: Path; readonly message: string };

const FIELDS = ["labels", "annotations"] as const;

/** Finds unknown keys of Muster in the labels and annotations of a job and of its pod templates, because such keys would have no effect. */
export function findUnknownKeys(job: unknown): readonly UnknownKey[] {
  const spec = child(job, "spec");
  const replicaSpecs = Object.keys(spec).filter((name) => name.toLowerCase().endsWith("replicaspecs"));
  return [
    ...findMetadataKeys(child(job, "metadata"), ["metadata"]),
    ...replicaSpecs.flatMap((name) =>
      Object.entries(child(spec, name)).flatMap(([type, replica]) =>
        findMetadataKeys(child(child(replica, "template"), "metadata"), ["spec", name, type, "template", "metadata"]),
      ),
    ),
  ];
}

function findMetadataKeys(metadata: Fields, path: Path): readonly UnknownKey[] {
  const isTemplate = path.length > 1;
  return FIELDS.flatMap((field) =>
    Object.entries(child(metadata, field))
      .filter(([key]) => isMusterKey(key) && !isKnown(field, key, isTemplate))
      .map(([key, value]) => {
        const message = `has no effect with ${describeValue(value)}: ${describeKey(field, key, isTemplate)}`;
        return { path: [...path, field, key], message };
      }),
  );
}

type Field = (typeof FIELDS)[number];

/** The keys that users write, by field. */
const KNOWN: Readonly<Record<Field, readonly string[]>> = { labels: JOB_LABEL_KEYS, annotations: JOB_KEYS };

function isKnown(field: Field, key: string, isTemplate: boolean): boolean {
  return MUSTER_KEYS[field].includes(key) && !(isTemplate && JOB_ONLY_KEYS.includes(key));
}

function describeKey(field: Field, key: string, isTemplate: boolean): string {
  const other = FIELDS.find((each) => each !== field && MUSTER_KEYS[each].includes(key));
  const isMisplaced = isTemplate && JOB_ONLY_KEYS.includes(key);
  if (isMisplaced)
    return `it belongs ${other === undefined ? "on" : `into ${other} of`} the job, not on a pod template`;
  if (other !== undefined) return `it belongs into ${other}`;
  const near = findNearestName(key, [...JOB_KEYS, ...JOB_LABEL_KEYS]);
  return near === undefined ? `known keys are ${KNOWN[field].join(", ")}` : `did you mean "${near}"?`;
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
