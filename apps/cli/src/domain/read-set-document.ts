import { checkSchema, makeValueReader, type Path } from "@muster/documents";
import { findFault, throwFault, type Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue, parseLabelSelector } from "@muster/names";
import { toFields, type ReadDocument } from "./read-document.ts";
import {
  buildSetSchema,
  MAX_SET_NAME,
  MIN_READY_SECONDS,
  type SetDocument,
  type SetSpec,
  type Strategy,
} from "./set-document.ts";

type Fields = Readonly<Record<string, unknown>>;
type Labels = Readonly<Record<string, string>>;
type Report = (path: Path, reason: string | undefined) => void;

/** A document that fits the schema. */
type SetYaml = {
  readonly metadata: { readonly name: string; readonly labels?: Labels };
  readonly spec: Partial<Omit<SetSpec, "nodeSelector" | "labels" | "allocationStrategy">> & {
    readonly nodeSelector?: string | Labels;
    readonly allocationStrategy?: Strategy;
  };
};

/** Reads plain data as a set, or reports every problem in it. Never throws. The schema for editors checks the form; this function checks the rest. */
export function readSetDocument(value: unknown): ReadDocument<SetDocument> {
  const reader = makeValueReader();
  checkSchema(reader, buildSetSchema(), [], value);
  const wrong = new Set(reader.findings.map(({ path }) => path.join(".")));
  const report: Report = (path, reason) => {
    // One problem per value is enough, but a mapping may lack several fields.
    const isReported = path.length > 1 && wrong.has(path.join("."));
    if (reason !== undefined && !isReported) reader.report(path, reason);
  };
  const { metadata, spec } = toFields(value);
  const { name, labels } = toFields(metadata);
  if (typeof name === "string") report(["metadata", "name"], reasonOf(checkDnsLabel("name", name, MAX_SET_NAME)));
  checkLabels(report, ["metadata", "labels"], toFields(labels));
  if (typeof spec === "object" && spec !== null && !Array.isArray(spec)) checkSpec(report, toFields(spec));
  if (reader.findings.length > 0) return { ok: false, findings: reader.findings };
  return { ok: true, value: buildDocument(value as SetYaml) };
}

function buildDocument({ metadata, spec }: SetYaml): SetDocument {
  const { nodeSelector = "", daemon = false } = spec;
  return {
    name: metadata.name,
    spec: {
      podId: spec.podId ?? "",
      replicas: daemon ? undefined : spec.replicas,
      daemon,
      nodeSelector: typeof nodeSelector === "string" ? nodeSelector : writeSelector(nodeSelector),
      pool: spec.pool ?? "",
      allocationStrategy: spec.allocationStrategy ?? "Dynamic",
      minReadySeconds: spec.minReadySeconds ?? MIN_READY_SECONDS.fallback,
      template: spec.template ?? {},
      labels: { ...metadata.labels },
    },
  };
}

function writeSelector(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

function checkSpec(report: Report, { replicas, daemon, podId, nodeSelector, pool }: Fields): void {
  const at = (field: string): Path => ["spec", field];
  // A missing number must never mean zero.
  if (replicas === undefined && daemon !== true)
    report(["spec"], "lacks replicas (or daemon: true); for a set without pods write replicas: 0");
  if (replicas !== undefined && daemon === true)
    report(
      at("replicas"),
      "conflicts with daemon: true, which means a pod on each eligible node; remove one of the two",
    );
  if (nodeSelector === undefined && pool === undefined)
    report(["spec"], 'lacks nodeSelector (or pool); nodeSelector: "" means every node');
  if (nodeSelector !== undefined && pool !== undefined)
    report(at("pool"), "conflicts with nodeSelector: the ledger chooses the machines of a pool; remove one of the two");
  if (typeof podId === "string" && podId !== "") report(at("podId"), reasonOf(checkDnsLabel("podId", podId)));
  if (typeof nodeSelector === "string") report(at("nodeSelector"), reasonOfSelector(nodeSelector));
  else if (nodeSelector !== undefined) {
    const labels = toFields(nodeSelector);
    const isText = labels === nodeSelector && Object.values(labels).every((label) => typeof label === "string");
    if (isText && !Array.isArray(nodeSelector)) checkLabels(report, at("nodeSelector"), labels);
    else report(at("nodeSelector"), "must be a label selector, or a mapping of labels with quoted values");
  }
}

function reasonOfSelector(text: string): string | undefined {
  try {
    parseLabelSelector(text, {
      checkKey: (key) => reasonOf(checkLabelKey("", key)),
      checkValue: (label) => reasonOf(checkLabelValue("", label)),
      refuse: (reason) => throwFault({ code: "invalid_request", field: "nodeSelector", reason }),
    });
    return undefined;
  } catch (error) {
    const reason = reasonOf(findFault(error));
    if (reason === undefined) throw error;
    return `is no label selector: ${reason}`;
  }
}

function checkLabels(report: Report, path: Path, labels: Fields): void {
  for (const [key, value] of Object.entries(labels)) {
    report([...path, key], reasonOf(checkLabelKey(key, key)));
    if (typeof value === "string") report([...path, key], reasonOf(checkLabelValue(key, value)));
  }
}

function reasonOf(fault: Fault | undefined): string | undefined {
  return fault?.code === "invalid_request" ? fault.reason : undefined;
}
