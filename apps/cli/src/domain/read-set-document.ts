import { faultOf, throwFault, type Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue, parseLabelSelector } from "@muster/names";
import { valueReader, type Finding, type Path, type ValueReader } from "@muster/documents";
import { API_VERSION } from "./session-document.ts";
import {
  MIN_READY_SECONDS,
  SET_KIND,
  MAX_SET_LABELS,
  MAX_SET_NAME,
  MAX_SET_REPLICAS,
  STRATEGIES,
  type SetDocument,
  type SetSpec,
} from "./set-document.ts";

export type ReadSet =
  { readonly ok: true; readonly document: SetDocument } | { readonly ok: false; readonly findings: readonly Finding[] };

type Fields = Readonly<Record<string, unknown>>;

const FIELDS = {
  spec: ["replicas", "daemon", "podId", "nodeSelector", "pool", "allocationStrategy", "minReadySeconds", "template"],
  template: ["metadata", "spec"],
} as const;

/** Reads one document's plain data as a set, or reports every problem in it. Never throws. */
export function readSetDocument(value: unknown): ReadSet {
  const reader = valueReader();
  const top = reader.mapping([], value, ["apiVersion", "kind", "metadata", "spec"]);
  if (top === undefined) return { ok: false, findings: reader.findings };
  for (const field of ["apiVersion", "kind", "metadata", "spec"])
    if (top[field] === undefined) reader.report([], `lacks ${field}`);
  if (top["apiVersion"] !== undefined) reader.oneOf(["apiVersion"], top["apiVersion"], [API_VERSION]);
  if (top["kind"] !== undefined) reader.oneOf(["kind"], top["kind"], [SET_KIND]);
  const metadata = optional(top["metadata"], (given) => reader.mapping(["metadata"], given, ["name", "labels"]));
  const name = readName(reader, metadata);
  const labels = readTexts(reader, ["metadata", "labels"], metadata?.["labels"]);
  checkLabels(reader, ["metadata", "labels"], labels);
  const fields = optional(top["spec"], (given) => reader.mapping(["spec"], given, FIELDS.spec));
  const spec = fields && readSpec(reader, fields, labels);
  if (name === undefined || spec === undefined || reader.findings.length > 0)
    return { ok: false, findings: reader.findings };
  return { ok: true, document: { name, spec } };
}

function readName(reader: ValueReader, metadata: Fields | undefined): string | undefined {
  if (metadata === undefined) return undefined;
  if (metadata["name"] === undefined) {
    reader.report(["metadata"], "lacks name");
    return undefined;
  }
  const name = reader.text(["metadata", "name"], metadata["name"]);
  const wrong = reasonOf(optional(name, (text) => checkDnsLabel("name", text, MAX_SET_NAME)));
  if (wrong !== undefined) reader.report(["metadata", "name"], wrong);
  return name;
}

function readSpec(reader: ValueReader, fields: Fields, labels: SetSpec["labels"]): SetSpec {
  const at = (field: string): Path => ["spec", field];
  const text = (field: string): string => optional(fields[field], (given) => reader.text(at(field), given)) ?? "";
  const daemon = fields["daemon"] ?? false;
  if (typeof daemon !== "boolean") reader.report(at("daemon"), "must be true or false");
  const podId = text("podId");
  const wrong = podId === "" ? undefined : reasonOf(checkDnsLabel("podId", podId));
  if (wrong !== undefined) reader.report(at("podId"), wrong);
  const nodeSelector = readSelector(reader, at("nodeSelector"), fields["nodeSelector"]);
  const pool = text("pool");
  if (fields["nodeSelector"] !== undefined && fields["pool"] !== undefined)
    reader.report(
      at("pool"),
      "stands beside nodeSelector; one of the two decides: the ledger picks the machines of a pool",
    );
  if (fields["nodeSelector"] === undefined && fields["pool"] === undefined)
    reader.report(["spec"], 'lacks nodeSelector (or pool); nodeSelector: "" means every node');
  const strategy = fields["allocationStrategy"] ?? "Dynamic";
  return {
    podId,
    replicas: readReplicas(reader, fields, daemon === true),
    daemon: daemon === true,
    nodeSelector,
    pool,
    allocationStrategy: reader.oneOf(at("allocationStrategy"), strategy, STRATEGIES) ?? "Dynamic",
    minReadySeconds: readMinReady(reader, fields["minReadySeconds"]),
    template: readTemplate(reader, fields["template"]),
    labels,
  };
}

function readMinReady(reader: ValueReader, value: unknown): number {
  const { fallback, max } = MIN_READY_SECONDS;
  return reader.integer(["spec", "minReadySeconds"], value ?? fallback, { min: 0, max }) ?? fallback;
}

/** A missing number must never mean zero. */
function readReplicas(reader: ValueReader, { replicas }: Fields, daemon: boolean): number | undefined {
  const path = ["spec", "replicas"];
  if (daemon) {
    if (replicas !== undefined)
      reader.report(
        path,
        "stands beside daemon: true, which means a pod on each eligible node; leave one of the two out",
      );
    return undefined;
  }
  if (replicas === undefined) {
    reader.report(["spec"], "lacks replicas (or daemon: true); for a set without pods write replicas: 0");
    return undefined;
  }
  return reader.integer(path, replicas, { min: 0, max: MAX_SET_REPLICAS });
}

/** A selector as text, or labels that all have to match. */
function readSelector(reader: ValueReader, path: Path, value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const labels = readTexts(reader, path, value);
    checkLabels(reader, path, labels);
    return Object.entries(labels)
      .map(([key, label]) => `${key}=${label}`)
      .join(",");
  }
  const text = reader.text(path, value);
  try {
    parseLabelSelector(text ?? "", {
      checkKey: (key) => reasonOf(checkLabelKey("", key)),
      checkValue: (label) => reasonOf(checkLabelValue("", label)),
      refuse: (reason) => throwFault({ code: "invalid_request", field: "nodeSelector", reason }),
    });
  } catch (error) {
    const reason = reasonOf(faultOf(error));
    if (reason === undefined) throw error;
    reader.report(path, `is no label selector: ${reason}`);
  }
  return text ?? "";
}

function readTemplate(reader: ValueReader, value: unknown): Fields {
  const path = ["spec", "template"];
  if (value === undefined) {
    reader.report(["spec"], "lacks template: what each pod is made from, as in a Deployment");
    return {};
  }
  const template = reader.mapping(path, value, FIELDS.template);
  if (template === undefined) return {};
  const metadata = optional(template["metadata"], (given) =>
    reader.mapping([...path, "metadata"], given, ["labels", "annotations"]),
  );
  for (const field of ["labels", "annotations"]) readTexts(reader, [...path, "metadata", field], metadata?.[field]);
  const { spec } = template;
  if (spec === undefined) reader.report(path, "lacks spec");
  else if (typeof spec !== "object" || spec === null || Array.isArray(spec))
    reader.mapping([...path, "spec"], spec, []);
  else checkPod(reader, [...path, "spec"], { ...spec });
  return template;
}

/** Frequent mistakes; the API server checks the rest. */
function checkPod(reader: ValueReader, path: Path, spec: Fields): void {
  const { containers, restartPolicy } = spec;
  if (restartPolicy !== undefined) reader.oneOf([...path, "restartPolicy"], restartPolicy, ["Always"]);
  if (containers === undefined) reader.report(path, "lacks containers");
  const list = containers === undefined ? undefined : reader.list([...path, "containers"], containers);
  if (list?.length === 0) reader.report([...path, "containers"], "needs at least one container");
  for (const [index, container] of (list ?? []).entries()) {
    const at = [...path, "containers", index];
    const keys = typeof container === "object" && container !== null ? Object.keys(container) : [];
    const fields = reader.mapping(at, container, keys);
    for (const field of ["name", "image"])
      if (fields !== undefined && fields[field] === undefined) reader.report(at, `lacks ${field}`);
  }
}

function readTexts(reader: ValueReader, path: Path, value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  const keys = typeof value === "object" && value !== null ? Object.keys(value) : [];
  const fields = reader.mapping(path, value, keys) ?? {};
  const read = Object.entries(fields).map(([key, text]) => [key, reader.text([...path, key], text) ?? ""] as const);
  return Object.fromEntries(read);
}

function checkLabels(reader: ValueReader, path: Path, labels: Readonly<Record<string, string>>): void {
  const entries = Object.entries(labels);
  if (entries.length > MAX_SET_LABELS) reader.report(path, `has ${entries.length} labels; ${MAX_SET_LABELS} at most`);
  for (const [key, value] of entries) {
    for (const fault of [checkLabelKey(key, key), checkLabelValue(key, value)]) {
      const wrong = reasonOf(fault);
      if (wrong !== undefined) reader.report([...path, key], wrong);
    }
  }
}

function reasonOf(fault: Fault | undefined): string | undefined {
  return fault?.code === "invalid_request" ? fault.reason : undefined;
}

function optional<Given, Read>(given: Given | undefined, read: (given: Given) => Read): Read | undefined {
  return given === undefined ? undefined : read(given);
}
