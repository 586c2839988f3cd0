import { checkLabelKey, checkLabelValue } from "@muster/names";
import type { Path } from "./read-value.ts";

/** A problem of the node selection of a pod, at a path below the pod's spec. */
export type SelectionProblem = { readonly path: Path; readonly message: string };

type Requirement = { readonly key?: string; readonly operator?: string; readonly values?: readonly string[] };
type NodeTerm = { readonly matchExpressions?: readonly Requirement[]; readonly matchFields?: readonly Requirement[] };

/** The node selection of a pod's spec, with fields of the right types. */
export type WrittenSelection = {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly affinity?: {
    readonly nodeAffinity?: {
      readonly requiredDuringSchedulingIgnoredDuringExecution?: { readonly nodeSelectorTerms?: readonly NodeTerm[] };
    };
  };
};

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const TERMS: Path = ["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];

/** The problems of the node selector and the required node affinity: what the API server refuses, or what no node can have. */
export function checkNodeSelection({ nodeSelector = {}, affinity }: WrittenSelection): readonly SelectionProblem[] {
  const labels = Object.entries(nodeSelector).flatMap(([key, value]) => [
    ...problemsOf(["nodeSelector", key], checkLabelKey(key, key)),
    ...problemsOf(["nodeSelector", key], checkLabelValue(key, value)),
  ]);
  const required = affinity?.nodeAffinity?.[REQUIRED];
  if (required === undefined) return labels;
  const { nodeSelectorTerms = [] } = required;
  if (nodeSelectorTerms.length === 0) {
    const message = `is empty; write a term with matchExpressions or matchFields, or leave ${REQUIRED} out`;
    return [...labels, { path: TERMS, message }];
  }
  return [...labels, ...nodeSelectorTerms.flatMap((term, index) => checkTerm([...TERMS, index], term))];
}

function checkTerm(path: Path, { matchExpressions = [], matchFields = [] }: NodeTerm): readonly SelectionProblem[] {
  if (matchExpressions.length + matchFields.length === 0)
    return [{ path, message: "accepts no node; write matchExpressions or matchFields, or leave the term out" }];
  const expressions = matchExpressions.flatMap((each, index) => {
    const here = [...path, "matchExpressions", index];
    return [...problemsOf([...here, "key"], checkLabelKey("key", each.key ?? "")), ...checkValues(here, each)];
  });
  const fields = matchFields.flatMap((each, index) => {
    const here = [...path, "matchFields", index];
    if (each.key === "metadata.name") return checkValues(here, each);
    return [{ path: [...here, "key"], message: `is "${each.key ?? ""}"; the only field is metadata.name` }];
  });
  return [...expressions, ...fields];
}

function checkValues(path: Path, { operator = "", values = [] }: Requirement): readonly SelectionProblem[] {
  const given = values.length === 0 ? "and has none" : `not ${values.map((value) => JSON.stringify(value)).join(", ")}`;
  switch (operator) {
    case "":
      return [{ path: [...path, "operator"], message: "is missing" }];
    case "In":
    case "NotIn":
      return values.length > 0 ? [] : [{ path, message: `${operator} needs values, ${given}` }];
    case "Exists":
    case "DoesNotExist":
      if (values.length === 0) return [];
      return [{ path: [...path, "values"], message: `must be left out with ${operator}, ${given}` }];
    default: {
      const isNumber = values.length === 1 && /^[+-]?\d+$/.test(values[0] ?? "");
      return isNumber ? [] : [{ path, message: `${operator} needs one value, a whole number, ${given}` }];
    }
  }
}

function problemsOf(path: Path, fault: ReturnType<typeof checkLabelKey>): readonly SelectionProblem[] {
  return fault?.code === "invalid_request" ? [{ path, message: fault.reason }] : [];
}
